package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/state"
)

// StandInDir holds the request, the result and the log of the stand-in.
const StandInDir = "/run/holdfast/etcd"

// StandInRequest tells for which member the stand-in votes, and for whom. Its
// contract is in payload/standin/README.md.
type StandInRequest struct {
	// Evidence names the proof that the target cannot act.
	Evidence string         `json:"evidence"`
	Cluster  state.MemberID `json:"cluster"`
	// Target is the member that cannot act, Survivor the member of this host.
	Target   state.MemberID `json:"target"`
	Survivor state.MemberID `json:"survivor"`
	// PeerURL and ClientURL are those of this host.
	PeerURL   string     `json:"peerURL"`
	ClientURL string     `json:"clientURL"`
	TLS       StandInTLS `json:"tls"`
	// LeastIndex is an index that this host's log is known to have reached.
	LeastIndex uint64 `json:"leastIndex,omitempty"`
	DeadlineMS int    `json:"deadlineMS,omitempty"`
}

// StandInTLS names the files of this host's peer certificate.
type StandInTLS struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// StandInResult is the outcome of a stand-in.
type StandInResult struct {
	Evidence string               `json:"evidence"`
	Outcome  state.StandInOutcome `json:"outcome"`
	Reason   string               `json:"reason,omitempty"`
	Detail   string               `json:"detail,omitempty"`
	Term     uint64               `json:"term,omitempty"`
	Tail     uint64               `json:"tail"`
	// MS holds the times of its steps, in milliseconds since its start.
	MS map[string]float64 `json:"ms,omitempty"`
}

// StandIn is the state of the stand-in on this host.
type StandIn struct {
	// Member is the member for which the running one votes, zero if none runs.
	Member state.MemberID
	PID    int
	// Last is the outcome of the last one, nil if it was killed or none has
	// ended in this boot. It belongs to the request with the same evidence.
	Last *StandInResult
	// Log is the end of the last one's log, for administrators.
	Log string
}

// standInFiles are the files of one stand-in. The request is also its lock: the
// stand-in has it open as its input for as long as it lives. So no recorded pid
// has to be trusted, and a restart of the keeper changes nothing.
type standInFiles struct{ dir string }

func (f standInFiles) request() string { return filepath.Join(f.dir, "stand-in.json") }
func (f standInFiles) result() string  { return filepath.Join(f.dir, "stand-in.result") }
func (f standInFiles) log() string     { return filepath.Join(f.dir, "stand-in.log") }

// StartStandIn starts a stand-in that outlives this process, and returns its
// pid. A host runs at most one.
func StartStandIn(req StandInRequest) (int, error) {
	pid, err := standInFiles{StandInDir}.start(req)
	if err != nil {
		return 0, fmt.Errorf("start a stand-in for member %s: %w", req.Target, err)
	}
	return pid, nil
}

// StandInState returns whether a stand-in runs, for which member, and how the
// last one ended.
func StandInState() (StandIn, error) {
	s, err := standInFiles{StandInDir}.state()
	if err != nil {
		return StandIn{}, fmt.Errorf("ask whether a stand-in runs: %w", err)
	}
	return s, nil
}

// StopStandIn ends a running stand-in and waits for its end: it sends SIGTERM
// first, and SIGKILL after half a second.
func StopStandIn(ctx context.Context) error {
	if err := (standInFiles{StandInDir}).stop(ctx); err != nil {
		return fmt.Errorf("stop the stand-in: %w", err)
	}
	return nil
}

func (f standInFiles) start(req StandInRequest) (int, error) {
	body, err := json.Marshal(req)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return 0, err
	}
	in, err := f.claim(body)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }() // the stand-in keeps the lock
	if err := host.RemoveFile(f.log()); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(f.result(), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = out.Close() }()
	pid, err := host.StartDetached(host.Cmd{Name: program, Stdin: in, Stdout: out}, f.log())
	if err == nil {
		go reap(pid)
	}
	return pid, err
}

// reap removes the ended process from the kernel's list. If this process ends
// first, the host's first process does it.
func reap(pid int) {
	for {
		if _, err := syscall.Wait4(pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// claim locks the request's file, writes it and leaves its offset at the start.
// It never replaces the file, since the lock would stay with the old one.
func (f standInFiles) claim(body []byte) (*os.File, error) {
	in, err := os.OpenFile(f.request(), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(in.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(errors.New("one runs already"), in.Close())
	}
	if err := in.Truncate(0); err != nil {
		return nil, errors.Join(err, in.Close())
	}
	if _, err := in.WriteAt(body, 0); err != nil { // leaves the offset at the start
		return nil, errors.Join(err, in.Close())
	}
	return in, nil
}

func (f standInFiles) state() (StandIn, error) {
	s := StandIn{Last: f.last(), Log: f.said()}
	locked, body, err := f.locked()
	if err != nil || !locked {
		return s, err
	}
	var req StandInRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return s, fmt.Errorf("one runs, and its request cannot be read: %w", err)
	}
	s.Member = req.Target
	s.PID, err = f.holder()
	return s, err
}

// locked reports whether somebody holds the request, and returns its content.
func (f standInFiles) locked() (bool, []byte, error) {
	in, err := os.Open(f.request())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil
	}
	if err != nil {
		return false, nil, err
	}
	defer func() { _ = in.Close() }()
	switch err := unix.Flock(int(in.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil:
		return false, nil, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		return false, nil, err
	}
	body, err := io.ReadAll(in)
	return true, body, err
}

// holder finds the process that has the request as its input; 0 if it has just
// ended.
func (f standInFiles) holder() (int, error) {
	want, err := os.Stat(f.request())
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if have, err := os.Stat(filepath.Join("/proc", e.Name(), "fd/0")); err == nil && os.SameFile(want, have) {
			return pid, nil
		}
	}
	return 0, nil
}

func (f standInFiles) last() *StandInResult {
	data, err := os.ReadFile(f.result())
	var r StandInResult
	if err != nil || json.Unmarshal(data, &r) != nil || r.Outcome == "" {
		return nil
	}
	return &r
}

// maxSaid bounds how much of the stand-in's log is repeated, in bytes.
const maxSaid = 2 << 10

func (f standInFiles) said() string {
	data, err := os.ReadFile(f.log())
	if err != nil {
		return ""
	}
	return string(data[max(0, len(data)-maxSaid):])
}

func (f standInFiles) stop(ctx context.Context) error {
	const stopTimeout = 500 * time.Millisecond
	began := time.Now()
	for {
		s, err := f.state()
		if err != nil || s.Member == 0 {
			return err
		}
		sig := syscall.SIGTERM
		if time.Since(began) > stopTimeout {
			sig = syscall.SIGKILL
		}
		if err := signal(s.PID, sig); err != nil {
			return err
		}
		if err := host.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

func signal(pid int, sig syscall.Signal) error {
	if pid == 0 { // it has just ended
		return nil
	}
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	return nil
}
