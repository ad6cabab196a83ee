package etcd

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
)

// ErrNoData is returned if a data directory holds no member.
var ErrNoData = errors.New("there are no data of etcd")

// OpenStopped copies the data of a member that is down below a folder, and starts an etcd over the
// copy as the only member, whoever else was one. It has all that the member had taken in, also what
// it had not heard to be committed: some of that may be acknowledged, and some not. The data themselves
// stay as they are, and so does what was set aside beside them; an etcd that is started over them
// meanwhile waits until they are copied. OpenStopped removes earlier copies in its folder; the caller
// removes the folder.
func OpenStopped(ctx context.Context, s Scratch, folder string) (*Alone, error) {
	free, err := hold(s.DataDir) // an etcd that starts would tear the copy, and nothing could tell
	if err != nil {
		return nil, err
	}
	data, err := backup(ctx, s.DataDir, folder, 1, math.MaxInt64, folder)
	free()
	if err == nil && data == "" {
		err = fmt.Errorf("%w in %s", ErrNoData, s.DataDir)
	}
	if err != nil {
		return nil, err
	}
	// etcd would throw away what the log does not know to be committed.
	if err := settle(ctx, "settle-all", data); err != nil {
		return nil, err
	}
	s.DataDir, s.only = data, true
	return OpenScratch(ctx, s)
}

// Client returns a client of it, which ends with it.
func (a *Alone) Client() *Client { return &Client{conn: a.conn, http: &http.Client{}} }
