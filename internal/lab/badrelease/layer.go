package badrelease

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/holdfast/holdfast/internal/install/release"
)

// relayer changes files of a layer, and returns the layer and what became of those files. A
// layer without them stays.
func relayer(dir string, l v1.Descriptor, files map[string]change) (v1.Descriptor, map[string]release.File, error) {
	in, err := os.Open(blob(dir, l.Digest.Hex))
	if err != nil {
		return l, nil, err
	}
	defer func() { _ = in.Close() }() // it was only read
	switch has, err := hasOne(in, files); {
	case err != nil || !has:
		return l, nil, err
	}
	if _, err := in.Seek(0, io.SeekStart); err != nil {
		return l, nil, err
	}
	part := blob(dir, l.Digest.Hex+unfinished)
	out, err := os.Create(filepath.Clean(part))
	if err != nil {
		return l, nil, err
	}
	sum, size := sha256.New(), counter(0)
	found, err := rewrite(io.MultiWriter(out, sum, &size), in, files)
	if err := errors.Join(err, out.Close()); err != nil {
		return l, nil, err
	}
	l.Digest, l.Size = v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}, int64(size)
	return l, found, os.Rename(part, blob(dir, l.Digest.Hex))
}

type counter int64

func (c *counter) Write(data []byte) (int, error) {
	*c += counter(len(data))
	return len(data), nil
}

// hasOne reports whether a layer has one of the files. It reads no contents.
func hasOne(layer io.ReadSeeker, files map[string]change) (bool, error) {
	for tr := tar.NewReader(layer); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		if files[pathIn(h)] != nil {
			return true, nil
		}
	}
}

// rewrite copies a layer with the changed files, which keep all but their contents.
func rewrite(out io.Writer, in io.Reader, files map[string]change) (map[string]release.File, error) {
	found := map[string]release.File{}
	tr, tw := tar.NewReader(in), tar.NewWriter(out)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return found, tw.Close()
		}
		if err != nil {
			return nil, err
		}
		var body io.Reader = tr
		if do := files[pathIn(h)]; do != nil {
			data, err := io.ReadAll(tr)
			if err == nil {
				data, err = do(data)
			}
			if err != nil {
				return nil, err
			}
			h.Size, body = int64(len(data)), bytes.NewReader(data)
			found[pathIn(h)] = release.File{Path: pathIn(h), Digest: hashOf(data).String(), Size: h.Size}
		}
		if err := tw.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := io.Copy(tw, body); err != nil {
			return nil, err
		}
	}
}

// pathIn returns the path of a file on a host.
func pathIn(h *tar.Header) string { return filepath.Join("/", h.Name) }
