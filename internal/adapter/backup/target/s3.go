package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/holdfast/holdfast/internal/model/backup"
)

// checksum is the kind of checksum that uploads carry. Servers differ: one with object lock
// wants a checksum, others refuse the newer kinds.
type checksum string

// The kinds, in the order in which they are tried.
const (
	withMD5     checksum = "md5"    // the header of S3 from its beginning; object lock takes it
	withTrailer checksum = "crc32c" // the newer one, behind the body
	withNone    checksum = "none"
)

var checksums = []checksum{withMD5, withTrailer, withNone}

// known remembers the checksum that a bucket takes while this process lives, which is one
// backup: so each backup costs one probe with a small object.
var known sync.Map // of the endpoint and the bucket, to a checksum

// bucket is an S3 bucket.
type bucket struct {
	backup.S3
	// plain sends no trailing headers, trailing does.
	plain, trailing *minio.Client
	transport       *http.Transport
}

// attempts is how often the library tries a request. The next backup tries again after that.
const attempts = 3

func openBucket(s backup.S3) (Target, error) {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Host == "" {
		return nil, errors.New("its endpoint is no URL")
	}
	b := &bucket{S3: s}
	if b.transport, err = minio.DefaultTransport(u.Scheme == "https"); err != nil {
		return nil, err
	}
	b.transport.ResponseHeaderTimeout = 2 * time.Minute
	if s.CA != "" {
		roots, err := x509.SystemCertPool()
		if err != nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM([]byte(s.CA)) {
			return nil, errors.New("its ca holds no certificate")
		}
		b.transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
	}
	options := minio.Options{
		Creds:  credentials.NewStaticV4(s.AccessKey, s.SecretKey.Reveal(), ""),
		Secure: u.Scheme == "https", Region: s.Region, Transport: b.transport, MaxRetries: attempts,
	}
	if b.plain, err = minio.New(u.Host, &options); err != nil {
		return nil, err
	}
	options.TrailingHeaders = true
	b.trailing, err = minio.New(u.Host, &options)
	return b, err
}

func (b *bucket) key(name string) string { return path.Join(b.Prefix, name) }

// Put implements Target. An object appears once it is whole.
func (b *bucket) Put(ctx context.Context, name string, from io.ReadSeeker, size int64) error {
	way, err := b.probe(ctx, path.Join(path.Dir(name), "probe"))
	if err != nil {
		return err
	}
	return b.put(ctx, way, name, from, size)
}

// probeText is the content of the probe.
const probeText = "Holdfast wrote this to learn which checksums the server takes.\n"

// probe finds a checksum that the bucket takes, with a small object. It removes the object
// again if the account may do so.
func (b *bucket) probe(ctx context.Context, name string) (checksum, error) {
	id := b.Endpoint + " " + b.Bucket
	if way, found := known.Load(id); found {
		return way.(checksum), nil //nolint:forcetypeassert // only this function stores
	}
	var errs []error
	for _, way := range checksums {
		err := b.try(ctx, way, name)
		if err == nil {
			known.Store(id, way)
			_ = b.Remove(ctx, name) // an account that may only append leaves it there
			return way, nil
		}
		errs = append(errs, fmt.Errorf("with checksum %s: %w", way, err))
		if !formal(err) {
			return "", err
		}
	}
	return "", errors.Join(errs...)
}

// try writes the probe and reads it back, because a server that does not know the trailing
// form stores its frame as if it were data.
func (b *bucket) try(ctx context.Context, way checksum, name string) error {
	if err := b.put(ctx, way, name, strings.NewReader(probeText), int64(len(probeText))); err != nil {
		return err
	}
	r, err := b.Get(ctx, name)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err = errors.Join(err, r.Close()); err != nil {
		return err
	}
	if string(got) != probeText {
		return ErrOther
	}
	return nil
}

// formal reports whether a server refused the form of a request, so that another checksum
// may pass.
func formal(err error) bool {
	if errors.Is(err, ErrOther) {
		return true
	}
	code := minio.ToErrorResponse(err).StatusCode
	return code == http.StatusBadRequest || code == http.StatusNotImplemented
}

func (b *bucket) put(ctx context.Context, way checksum, name string, from io.Reader, size int64) error {
	client, options := b.plain, minio.PutObjectOptions{ContentType: "application/octet-stream", NumThreads: 1}
	switch way {
	case withMD5:
		options.SendContentMd5 = true
	case withTrailer:
		client, options.Checksum = b.trailing, minio.ChecksumCRC32C
	case withNone:
	}
	if m, is := from.(*metered); is {
		options.Progress = progress{m.m}
	}
	_, err := client.PutObject(ctx, b.Bucket, b.key(name), from, size, options)
	if err != nil && ctx.Err() == nil && size > 0 {
		_ = b.plain.RemoveIncompleteUpload(ctx, b.Bucket, b.key(name)) // else the next backup does
	}
	return b.words(err)
}

// words adds to a refusal what a person has to do.
func (b *bucket) words(err error) error {
	switch minio.ToErrorResponse(err).Code {
	case "RequestTimeTooSkewed":
		return fmt.Errorf("the clock of this host or of the server is off by more than 15 minutes: chronyc tracking: %w", err)
	case minio.NoSuchKey:
		return fmt.Errorf("it is not there: %w: %w", fs.ErrNotExist, err)
	case minio.NoSuchBucket:
		return fmt.Errorf("there is no bucket %s: make it, or correct its name: %w", b.Bucket, err)
	}
	return err
}

// Get implements Target.
func (b *bucket) Get(ctx context.Context, name string) (io.ReadSeekCloser, error) {
	o, err := b.plain.GetObject(ctx, b.Bucket, b.key(name), minio.GetObjectOptions{})
	if err != nil {
		return nil, b.words(err)
	}
	return object{o, b}, nil
}

// object is an object of a bucket. The library asks for it when it is read.
type object struct {
	*minio.Object
	b *bucket
}

// Read reads.
func (o object) Read(p []byte) (int, error) {
	n, err := o.Object.Read(p)
	return n, o.b.words(err)
}

// Seek goes to a place.
func (o object) Seek(offset int64, whence int) (int64, error) {
	n, err := o.Object.Seek(offset, whence)
	return n, o.b.words(err)
}

// List implements Target. An upload of several parts that was cut off is listed as a half file: it
// costs room as long as nobody ends it, and is no object.
func (b *bucket) List(ctx context.Context, under string, see func(name string, size int64)) error {
	root := b.key(under)
	if root != "" {
		root += "/"
	}
	ctx, cancel := context.WithCancel(ctx) // else the library goes on after an error
	defer cancel()
	for o := range b.plain.ListObjects(ctx, b.Bucket, minio.ListObjectsOptions{Prefix: root, Recursive: true}) {
		if o.Err != nil {
			return b.words(o.Err)
		}
		see(b.name(o.Key), o.Size)
	}
	for u := range b.plain.ListIncompleteUploads(ctx, b.Bucket, root, true) {
		if u.Err != nil {
			return nil // many accounts may not see uploads: the bucket's own rules end them then
		}
		see(b.name(u.Key)+backup.HalfSuffix, u.Size)
	}
	return nil
}

// name is the reverse of key.
func (b *bucket) name(key string) string {
	return strings.TrimPrefix(strings.TrimPrefix(key, strings.Trim(b.Prefix, "/")), "/")
}

// Remove implements Target.
func (b *bucket) Remove(ctx context.Context, name string) error {
	if whole, half := strings.CutSuffix(name, backup.HalfSuffix); half {
		return b.words(b.plain.RemoveIncompleteUpload(ctx, b.Bucket, b.key(whole)))
	}
	return b.words(b.plain.RemoveObject(ctx, b.Bucket, b.key(name), minio.RemoveObjectOptions{}))
}

// Close implements Target.
func (b *bucket) Close() error {
	b.transport.CloseIdleConnections()
	return nil
}
