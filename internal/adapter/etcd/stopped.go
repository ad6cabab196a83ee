package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
)

// ErrNoData is returned if a data directory holds no member.
var ErrNoData = errors.New("there are no data of etcd")

// OpenStopped copies the data of a member that is down into a folder, and starts an etcd over the
// copy as the only member, whoever else was one. It has all that the member had taken in, also what
// it had not heard to be committed: some of that may be acknowledged, and some not. The data themselves
// stay as they are. OpenStopped removes what lies in the folder before; the caller removes the copy.
func OpenStopped(ctx context.Context, s Scratch, folder string) (*Alone, error) {
	if err := copyStopped(ctx, s.DataDir, folder); err != nil {
		return nil, fmt.Errorf("copy etcd's data from %s to %s: %w", s.DataDir, folder, err)
	}
	// etcd would throw away what the log does not know to be committed.
	if err := settle(ctx, "settle-all", folder); err != nil {
		return nil, err
	}
	s.DataDir, s.only = folder, true
	return OpenScratch(ctx, s)
}

func copyStopped(ctx context.Context, dataDir, folder string) error {
	running, err := Locked(dataDir)
	if err != nil {
		return err
	}
	if running {
		return ErrRuns
	}
	files, size, err := measure(filepath.Join(dataDir, "member"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return ErrNoData
	}
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700), room(folder, size)); err != nil {
		return err
	}
	return copyAll(ctx, files, dataDir, folder)
}

// Client returns a client of it, which ends with it.
func (a *Alone) Client() *Client { return &Client{conn: a.conn, http: &http.Client{}} }
