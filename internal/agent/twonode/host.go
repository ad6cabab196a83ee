package twonode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
)

// DefaultWait bounds the wait of a step for the work of others.
const DefaultWait = 3 * time.Minute

// poll is the pause between two looks of a waiting step, pollAway that of one during which the API
// is away.
const (
	poll     = time.Second
	pollAway = 200 * time.Millisecond
)

// Host is everything that the steps touch.
type Host struct {
	// Root comes before every path; it is empty on a real host.
	Root string
	// DryRun shows what would be done and does nothing.
	DryRun bool
	// Out gets one line for each thing that is done.
	Out io.Writer
	// Wait bounds each wait of a step.
	Wait time.Duration

	Run   func(context.Context, host.Cmd) ([]byte, error)
	Sleep func(context.Context, time.Duration) error
	Now   func() time.Time
	// Status asks Pacemaker.
	Status func(context.Context) (pacemaker.Status, error)
	// WriteDevices tests devices and writes those that can fence.
	WriteDevices func(ctx context.Context, files records.Files, devices []state.FencingDevice) error
	// Report asks the etcd keeper, Container asks podman.
	Report    func(context.Context) (state.EtcdReport, error)
	Container func(context.Context) (podman.Process, error)
	// Stop has the etcd keeper stop etcd, and not start it again in this boot. It returns once etcd
	// has ended.
	Stop func(context.Context) error
	// Start has the etcd keeper run etcd by parameters of Pacemaker.
	Start func(context.Context, state.EtcdParameters) error
	// Listens reports whether somebody listens at an address.
	Listens func(ctx context.Context, address string) bool

	hide *strings.Replacer // of the step under way
}

// NewHost returns the host that this process runs on.
func NewHost(out io.Writer) *Host {
	return &Host{
		Out: out, Wait: DefaultWait, Run: host.Run, Sleep: host.Sleep, Now: time.Now, Status: pacemaker.ReadStatus, Container: podman.State, Listens: listens, Stop: askToStop, Start: askToStart,
		WriteDevices: func(ctx context.Context, files records.Files, devices []state.FencingDevice) error {
			store := fence.NewStore()
			store.Files = files
			_, err := store.Write(ctx, devices)
			return err
		},
		Report: func(ctx context.Context) (state.EtcdReport, error) {
			return explain.Ask(ctx, state.EtcdSocketPath)
		},
	}
}

// dialTime bounds a connection to this very host.
const dialTime = 500 * time.Millisecond

func listens(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// withoutSecrets returns the host for work that knows no secret, and so has none
// to hide in what it says.
func (h *Host) withoutSecrets() *Host {
	out := *h
	out.hide = strings.NewReplacer()
	return &out
}

func (h *Host) path(p string) string { return filepath.Join("/", h.Root, p) }

func (h *Host) say(format string, args ...any) {
	_, _ = io.WriteString(h.Out, h.hide.Replace(fmt.Sprintf(format+"\n", args...)))
}

// do logs a command that changes something, with the reason, and runs it.
func (h *Host) do(ctx context.Context, why string, c host.Cmd) error {
	h.say("%s    # %s", c, why)
	if h.DryRun {
		return nil
	}
	_, err := h.Run(ctx, c)
	return err
}

// write writes a file unless it has this content and mode already.
func (h *Host) write(path string, data []byte, mode fs.FileMode) error {
	have, err := os.ReadFile(h.path(path))
	info, errStat := os.Lstat(h.path(path))
	if err == nil && errStat == nil && string(have) == string(data) && info.Mode().Perm() == mode {
		return nil
	}
	h.say("write %s (mode %04o)", path, mode)
	if h.DryRun {
		return nil
	}
	return host.WriteFileAtomic(h.path(path), data, mode)
}

// read reads a file; a missing one is empty.
func (h *Host) read(path string) ([]byte, error) {
	data, err := os.ReadFile(h.path(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// until calls look again and again until nothing is missing. look returns what is
// missing, or nothing; its error is a reason to look again, and is part of the
// final error.
func (h *Host) until(ctx context.Context, what string, look func(context.Context) (missing string, err error)) error {
	return h.untilEvery(ctx, poll, what, look)
}

func (h *Host) untilEvery(ctx context.Context, pause time.Duration, what string, look func(context.Context) (missing string, err error)) error {
	if h.DryRun {
		h.say("wait until %s", what)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, h.Wait, errors.New("not within "+h.Wait.String()))
	defer cancel()
	said := ""
	for {
		missing, err := look(ctx)
		if missing == "" && err == nil {
			return nil
		}
		now := reason(missing, err)
		if now != said && ctx.Err() == nil {
			h.say("waiting until %s: %s", what, now)
			said = now
		}
		if sleep := h.Sleep(ctx, pause); sleep != nil {
			return fmt.Errorf("wait until %s: %s: %w", what, said, sleep)
		}
	}
}

func reason(missing string, err error) string {
	if err != nil {
		return err.Error()
	}
	return missing
}

// hidden is an error whose text holds no secret.
type hidden struct {
	err  error
	hide *strings.Replacer
}

func (h *hidden) Error() string { return h.hide.Replace(h.err.Error()) }
func (h *hidden) Unwrap() error { return h.err }
