package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// cache keeps the results of steps:
//
//	steps/<kind>-<key>/result.json and the files of the step
//	locks/<kind>-<key>               held while a step runs
//	tmp/                             what is being made; worthless after a crash
//
// A step's folder is filled below tmp, synced and renamed, so it is complete
// when it is there.
type cache struct{ dir string }

// CacheDir returns the folder of build results: HOLDFAST_CACHE, or else
// holdfast in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv("HOLDFAST_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder (set HOLDFAST_CACHE): %w", err)
	}
	return filepath.Join(dir, "holdfast"), nil
}

func openCache(dir string) (*cache, error) {
	c := &cache{dir: dir}
	for _, sub := range []string{"steps", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, fmt.Errorf("open the build cache: %w", err)
		}
	}
	return c, nil
}

// step is a cached unit of work.
type step struct {
	// kind groups steps, for example go or image, and keeps the cache readable.
	kind string
	// key is a hash of all inputs.
	key string
	// run creates the result's files in dir and returns its description, which is
	// stored as JSON.
	run func(ctx context.Context, dir string) (any, error)
	// begun is called when the step has to run; may be nil.
	begun func()
}

// stepResult is the folder with a step's files, and whether the step had to
// run.
type stepResult struct {
	dir string
	ran bool
}

const resultFile = "result.json"

// do returns the result of a step, and runs the step if the cache has none. It
// stores the description in result. If another process runs the same step, do
// waits for it.
func (c *cache) do(ctx context.Context, s step, result any) (stepResult, error) {
	dir := filepath.Join(c.dir, "steps", s.kind+"-"+s.key)
	if ok, err := load(dir, result); ok || err != nil {
		return stepResult{dir: dir}, err
	}
	unlock, err := lock(ctx, filepath.Join(c.dir, "locks", s.kind+"-"+s.key))
	if err != nil {
		return stepResult{}, err
	}
	defer unlock()
	if ok, err := load(dir, result); ok || err != nil { // made during the wait
		return stepResult{dir: dir}, err
	}
	if err := c.fill(ctx, s, dir); err != nil {
		return stepResult{}, err
	}
	_, err = load(dir, result)
	return stepResult{dir: dir, ran: true}, err
}

// fill runs the step in a temporary folder, and then moves that folder into
// place.
func (c *cache) fill(ctx context.Context, s step, dir string) error {
	tmp, err := os.MkdirTemp(filepath.Join(c.dir, "tmp"), s.kind+"-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // already gone if it was renamed
	if err := context.Cause(ctx); err != nil {
		return err // another step failed, or the build was interrupted
	}
	if s.begun != nil {
		s.begun()
	}
	value, err := s.run(ctx, tmp)
	if err != nil {
		return err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	if err := host.WriteFileAtomic(filepath.Join(tmp, resultFile), data, 0o644); err != nil {
		return err
	}
	if err := syncFilesystem(tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("keep the result of a step: %w", err)
	}
	return host.SyncDir(filepath.Dir(dir))
}

// forget drops a step's result at once, not file by file.
func (c *cache) forget(ctx context.Context, kind, key string) error {
	unlock, err := lock(ctx, filepath.Join(c.dir, "locks", kind+"-"+key))
	if err != nil {
		return err
	}
	defer unlock()
	tmp, err := os.MkdirTemp(filepath.Join(c.dir, "tmp"), "old-")
	if err != nil {
		return err
	}
	err = os.Rename(filepath.Join(c.dir, "steps", kind+"-"+key), filepath.Join(tmp, "step"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(tmp))
}

// load reads a step's description and marks the entry as used.
func load(dir string, result any) (bool, error) {
	data, err := os.ReadFile(filepath.Join(dir, resultFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(data, result); err != nil {
		return false, fmt.Errorf("read %s (remove that folder and build again): %w", dir, err)
	}
	now := time.Now()
	_ = os.Chtimes(dir, now, now) // only tells prune that the entry is in use
	return true, nil
}

// lockRetry is the time between two attempts at a lock: a context could not end
// a blocking wait.
const lockRetry = 100 * time.Millisecond

// lock takes an exclusive lock on a file. It waits for other holders until the
// context ends. The kernel drops the lock when its holder dies.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	again := time.NewTicker(lockRetry)
	defer again.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		case <-again.C:
		}
	}
}

func syncFilesystem(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = unix.Syncfs(int(d.Fd()))
	return errors.Join(err, d.Close())
}

// blobPath returns the path of a blob in a layout.
func blobPath(root, digest string) (string, error) {
	h, ok := digestHex(digest)
	if !ok {
		return "", fmt.Errorf("%q is not a digest", digest)
	}
	return filepath.Join(root, "blobs", "sha256", h), nil
}

func digestHex(digest string) (string, bool) {
	const prefix = "sha256:"
	if len(digest) != len(prefix)+sha256.Size*2 || digest[:len(prefix)] != prefix {
		return "", false
	}
	h := digest[len(prefix):]
	_, err := hex.DecodeString(h)
	return h, err == nil
}

func digestOf(h hash.Hash) string { return "sha256:" + hex.EncodeToString(h.Sum(nil)) }

func digestBytes(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// digestFile returns a file's digest and size.
func digestFile(path string) (string, int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	n, err := io.Copy(h, f)
	return digestOf(h), n, errors.Join(err, f.Close())
}
