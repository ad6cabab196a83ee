package release

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Blob names a blob of a release. Size is in bytes.
type Blob struct {
	Digest string
	Size   int64
	// Manifest is true for the manifest of an image.
	Manifest bool
}

// Source is a place that may have a release. Whatever it gives, the reader compares
// each byte with a digest.
type Source interface {
	// String names the place for people.
	String() string
	// Index returns the bytes of the index with a digest.
	Index(ctx context.Context, digest string) ([]byte, error)
	// Blob opens a blob at an offset.
	Blob(ctx context.Context, b Blob, offset int64) (io.ReadCloser, error)
}

// maxIndex bounds an index, in bytes: it has no more than the names of files.
const maxIndex = 16 << 20

// Folder is a folder with a release in the OCI layout, or with one below it for each
// release, named by the digits of its digest: a stick, or the folder of an earlier
// installation.
type Folder string

func (f Folder) String() string { return "the folder " + string(f) }

// Index implements Source.
func (f Folder) Index(_ context.Context, digest string) ([]byte, error) {
	for _, dir := range f.folders(digest) {
		raw, err := os.ReadFile(filepath.Join(dir, indexFile))
		if err == nil && digestBytes(raw) == digest {
			return raw, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("it has no release %s: %w", digest, fs.ErrNotExist)
}

func (f Folder) folders(digest string) []string {
	return []string{filepath.Join(string(f), strings.TrimPrefix(digest, "sha256:")), string(f)}
}

// Blob implements Source. Each release below the folder may have the blob.
func (f Folder) Blob(_ context.Context, b Blob, offset int64) (io.ReadCloser, error) {
	at, err := blobPath("", b.Digest)
	if err != nil {
		return nil, err
	}
	found, err := filepath.Glob(filepath.Join(string(f), "[0-9a-f]*", at))
	if err != nil {
		return nil, err
	}
	for _, path := range append([]string{filepath.Join(string(f), at)}, found...) {
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if _, err := file.Seek(offset, io.SeekStart); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return file, nil
	}
	return nil, fmt.Errorf("it has no blob %s: %w", b.Digest, fs.ErrNotExist)
}

// Registry is a repository of a registry, or of a peer that serves its own releases.
type Registry struct {
	// Repository is like registry.example/holdfast/release, without tag or digest. A
	// registry that is named by its address may be without TLS: the digest proves what
	// it gives.
	Repository string
	// CAFile holds certificates to trust in addition to the system's; empty for none.
	CAFile string
	// TLS proves a peer; nil for a registry.
	TLS *tls.Config
}

func (r Registry) String() string { return "the registry " + r.Repository }

// Index implements Source.
func (r Registry) Index(ctx context.Context, digest string) ([]byte, error) {
	body, err := r.get(ctx, "manifests", digest, types.OCIImageIndex, 0, 0)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(body, maxIndex))
	return raw, errors.Join(err, body.Close())
}

// Blob implements Source.
func (r Registry) Blob(ctx context.Context, b Blob, offset int64) (io.ReadCloser, error) {
	if b.Manifest {
		body, err := r.get(ctx, "manifests", b.Digest, types.OCIManifestSchema1, 0, 0)
		if err != nil {
			return nil, err
		}
		return withoutFirst(body, offset)
	}
	return r.get(ctx, "blobs", b.Digest, "", offset, b.Size)
}

// withoutFirst leaves out the first bytes of a body.
func withoutFirst(body io.ReadCloser, offset int64) (io.ReadCloser, error) {
	if _, err := io.CopyN(io.Discard, body, offset); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return body, nil
}

// silence is how long a source may send nothing.
const silence = time.Minute

func (r Registry) get(ctx context.Context, kind, digest string, accept types.MediaType, offset, size int64) (_ io.ReadCloser, err error) {
	repository, client, err := r.client(ctx)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer func() {
		if err != nil {
			stop(nil)
		}
	}()
	timer := time.AfterFunc(silence, func() { stop(fmt.Errorf("it sent nothing for %s", silence)) })
	url := fmt.Sprintf("%s://%s/v2/%s/%s/%s", repository.Scheme(), repository.RegistryStr(), repository.RepositoryStr(), kind, digest)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if accept != "" {
		request.Header.Set("Accept", string(accept))
	}
	if offset > 0 {
		request.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", offset, size-1))
	}
	answer, err := client.Do(request) //nolint:bodyclose // watched closes it
	if err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	body := &watched{ReadCloser: answer.Body, timer: timer, stop: stop, cause: func() error { return context.Cause(ctx) }}
	if err := transport.CheckError(answer, http.StatusOK, http.StatusPartialContent); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	if offset > 0 && answer.StatusCode == http.StatusOK {
		return withoutFirst(body, offset)
	}
	return body, nil
}

// client returns the repository and a client that has its rights. The credentials
// are those that container tools keep for this user.
func (r Registry) client(ctx context.Context) (name.Repository, *http.Client, error) {
	opts := []name.Option{name.StrictValidation}
	host, _, _ := strings.Cut(r.Repository, "/")
	if byAddress(host) && r.TLS == nil {
		opts = append(opts, name.Insecure)
	}
	repository, err := name.NewRepository(r.Repository, opts...)
	if err != nil {
		return repository, nil, fmt.Errorf("%q is not REGISTRY/REPOSITORY: %w", r.Repository, err)
	}
	base, err := transportWith(r.CAFile, r.TLS)
	if err != nil {
		return repository, nil, err
	}
	auth, err := authn.DefaultKeychain.Resolve(repository)
	if err != nil {
		return repository, nil, err
	}
	ctx, stop := context.WithTimeout(ctx, silence)
	defer stop()
	rights, err := transport.NewWithContext(ctx, repository.Registry, auth, base, []string{repository.Scope(transport.PullScope)})
	return repository, &http.Client{Transport: rights}, err
}

// byAddress reports whether a registry is named by its IP address.
func byAddress(host string) bool {
	if at, err := netip.ParseAddrPort(host); err == nil {
		return at.IsValid()
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// transportWith returns the library's transport with certificates to trust.
func transportWith(caFile string, config *tls.Config) (http.RoundTripper, error) {
	plain, ok := remote.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, errors.New("the registry library has no HTTP transport")
	}
	if config == nil && caFile == "" {
		return plain, nil
	}
	if config == nil {
		pool, err := poolWith(caFile)
		if err != nil {
			return nil, err
		}
		config = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	plain = plain.Clone()
	plain.TLSClientConfig = config
	return plain, nil
}

// watched is a body that breaks if it is silent for too long.
type watched struct {
	io.ReadCloser
	timer *time.Timer
	stop  context.CancelCauseFunc
	cause func() error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.timer.Reset(silence)
	}
	if err != nil && !errors.Is(err, io.EOF) && w.cause() != nil {
		err = w.cause()
	}
	return n, err
}

func (w *watched) Close() error {
	w.timer.Stop()
	err := w.ReadCloser.Close()
	w.stop(nil)
	return err
}
