package release

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Repository is the name of the whole release in a registry; its tag is the
// version of Holdfast.
const Repository = "holdfast/release"

// TLS names the files of a server's certificate and key. Empty means plain
// HTTP.
type TLS struct{ CertFile, KeyFile string }

// Serve serves a release as a registry until the context ends: the whole
// release as Repository, and each image under its own name. Nobody can write to
// it.
func (s *Store) Serve(ctx context.Context, listener net.Listener, files TLS) error {
	handler, err := s.Handler(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute}
	ended := make(chan error, 1)
	go func() {
		if files == (TLS{}) {
			ended <- server.Serve(listener)
			return
		}
		ended <- server.ServeTLS(listener, files.CertFile, files.KeyFile)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serve the release: %w", err)
	case <-ctx.Done():
	}
	// Let downloads in progress end; a host that is cut off tries again.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// Handler returns the registry that Serve runs. The context bounds its
// creation.
func (s *Store) Handler(ctx context.Context) (http.Handler, error) {
	inner := registry.New(registry.WithBlobHandler(layoutBlobs{s.dir}), registry.Logger(log.New(io.Discard, "", 0)))
	for _, d := range s.index.Manifests {
		m, err := s.readBlob(refOf(d))
		if err != nil {
			return nil, err
		}
		img, _ := s.manifest.Image(d.Annotations[annotationImageName])
		tag := tagOf(img.Ref)
		// The parts of an index must be in its own repository.
		for _, name := range []string{img.Name + "/manifests/" + tag, Repository + "/manifests/" + d.Digest.String()} {
			if err := preload(ctx, inner, name, d.MediaType, m); err != nil {
				return nil, err
			}
		}
	}
	if err := preload(ctx, inner, Repository+"/manifests/"+s.manifest.Version, types.OCIImageIndex, s.raw); err != nil {
		return nil, err
	}
	return readOnly(inner), nil
}

// preload puts a manifest into the registry's memory. A request is the only way
// to do that.
func preload(ctx context.Context, h http.Handler, name string, kind types.MediaType, data []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, "/v2/"+name, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", string(kind))
	resp := answer{header: http.Header{}}
	h.ServeHTTP(&resp, req)
	if resp.code != http.StatusCreated {
		return fmt.Errorf("serve %s: the registry refused it: %s", name, resp.body.String())
	}
	return nil
}

// answer stores the answer to a request within the process.
type answer struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(code int)        { a.code = code }
func (a *answer) Write(p []byte) (int, error) { return a.body.Write(p) }

// readOnly lets only reading requests through.
func readOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// layoutBlobs gives a registry access to the blobs of a layout.
type layoutBlobs struct{ dir string }

func (l layoutBlobs) open(h v1.Hash) (*os.File, error) {
	path, err := blobPath(l.dir, h.String())
	if err != nil {
		return nil, registry.ErrNotFound
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, registry.ErrNotFound
	}
	return f, err
}

// Get opens a blob; it is part of registry.BlobHandler.
func (l layoutBlobs) Get(_ context.Context, _ string, h v1.Hash) (io.ReadCloser, error) {
	f, err := l.open(h)
	if err != nil {
		return nil, err // not f: a nil *os.File in an interface is not nil
	}
	return f, nil
}

// Stat returns a blob's size; it is part of registry.BlobStatHandler.
func (l layoutBlobs) Stat(_ context.Context, _ string, h v1.Hash) (int64, error) {
	f, err := l.open(h)
	if err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}
