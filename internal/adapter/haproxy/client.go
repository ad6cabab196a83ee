// Package haproxy talks to a running haproxy through its runtime API, and
// follows the state of the API servers behind it.
package haproxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	render "github.com/holdfast/holdfast/internal/render/haproxy"
)

// Answer bounds one question.
const Answer = 3 * time.Second

// answerSize bounds one answer in bytes; a hundred servers need 100 kB.
const answerSize = 4 << 20

// usualAnswer is the room in bytes that an answer of a small cluster needs: it is read in
// one piece four times a second.
const usualAnswer = 16 << 10

// ErrStopping is returned for a haproxy that was told to stop: it still
// answers, and still serves its present connections.
var ErrStopping = errors.New("haproxy is stopping")

// Unheard reports whether an error says that nobody listens at the socket.
func Unheard(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist)
}

// Client asks one haproxy.
type Client struct {
	// Socket is the socket of haproxy's master process. It leads to the current
	// worker: while an old worker ends after a reload, both would answer at
	// sockets of their own.
	Socket string
	// Answer bounds one question; zero means the constant Answer.
	Answer time.Duration
}

// Info holds haproxy's answer about itself.
type Info struct {
	// PID is the process id of the worker, as its own container counts.
	PID int
	// Fingerprint identifies the configuration with which it was started.
	Fingerprint string
	Stopping    bool
}

// Info asks which configuration haproxy runs with.
func (c Client) Info(ctx context.Context) (Info, error) {
	text, err := c.askWorker(ctx, "show info")
	if err != nil {
		return Info{}, err
	}
	return parseInfo(text)
}

// Servers lists haproxy's API servers and their states. The error is
// ErrStopping if haproxy was told to stop.
func (c Client) Servers(ctx context.Context) ([]apilb.Server, error) {
	text, err := c.askWorker(ctx, "show info;show stat "+render.Backend+" 4 -1")
	if err != nil {
		return nil, err
	}
	head, table, found := strings.Cut(text, "\n# ")
	if !found {
		return nil, fmt.Errorf("ask haproxy for its servers: it has no backend %q", render.Backend)
	}
	info, err := parseInfo(head)
	if err != nil {
		return nil, err
	}
	if info.Stopping {
		return nil, ErrStopping
	}
	return parseServers("# " + table)
}

// Apply makes a change to the running haproxy. ca is the path at which haproxy
// finds the certificates to verify API servers with.
func (c Client) Apply(ctx context.Context, change apilb.Change, ca string) error {
	for _, step := range steps(change, ca) {
		text, err := c.askWorker(ctx, step.command)
		if err != nil {
			return err
		}
		if text = strings.TrimSpace(text); text != step.answer && !slices.Contains(step.orElse, text) {
			return fmt.Errorf("haproxy: %s server %s: %s", change.Verb, change.Server, text)
		}
	}
	return nil
}

// Reload makes haproxy read its configuration again: a new process takes over
// its listening sockets, and the old one ends with its connections.
func (c Client) Reload(ctx context.Context) error {
	_, err := c.ask(ctx, "reload")
	return err
}

// step is one command, and haproxy's answer if it succeeds. orElse are further answers
// that are none of a failure.
type step struct {
	command, answer string
	orElse          []string
}

// steps returns the commands of a change. What concerns a server in Backend is done in
// Fallback first: a change is known to be done by Backend alone, so one that ended in
// between is made again, and finds what it did.
func steps(change apilb.Change, ca string) []step {
	first := stepsIn(render.Fallback, change, ca)
	for i := range first {
		first[i].orElse = doneBefore
	}
	return append(first, stepsIn(render.Backend, change, ca)...)
}

// doneBefore are the answers to a command that was given before. A haproxy of an earlier
// release has no Fallback until it has read its configuration anew.
var doneBefore = []string{"Already exists a server with the same name in backend.", "No such server.", "No such backend."}

// stepsIn returns the commands of a change in one backend. A new server starts as down
// and gets requests once its checks succeed; it is enabled last.
func stepsIn(backend string, change apilb.Change, ca string) []step {
	name := backend + "/" + change.Server
	switch change.Verb {
	case apilb.Add:
		return []step{
			{command: "add server " + backend + "/" + render.ServerLine(backend, change.Backend, ca), answer: "New server registered."},
			{command: "set server " + name + " health down"},
			{command: "enable health " + name},
			{command: "enable server " + name},
		}
	case apilb.Resume:
		return []step{{command: "enable health " + name}, {command: "set server " + name + " state ready"}}
	case apilb.Drain:
		return []step{{command: "set server " + name + " state drain"}}
	case apilb.Cut:
		return []step{{command: "shutdown sessions server " + name}}
	case apilb.Remove:
		return []step{
			{command: "set server " + name + " state maint"},
			{command: "shutdown sessions server " + name},
			{command: "del server " + name, answer: "Server deleted."},
		}
	default:
		return nil
	}
}

// askWorker asks the current worker.
func (c Client) askWorker(ctx context.Context, line string) (string, error) {
	return c.ask(ctx, "@1;"+line)
}

// ask sends one line and returns the complete answer.
func (c Client) ask(ctx context.Context, line string) (string, error) {
	limit := c.Answer
	if limit == 0 {
		limit = Answer
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", c.Socket)
	if err != nil {
		return "", fmt.Errorf("ask haproxy: %w", err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, line+"\n"); err != nil {
		return "", fmt.Errorf("ask haproxy: %w", err)
	}
	// No second line follows: without this, haproxy would wait for one.
	if half, ok := conn.(*net.UnixConn); ok {
		if err := half.CloseWrite(); err != nil {
			return "", fmt.Errorf("ask haproxy: %w", err)
		}
	}
	answer := bytes.NewBuffer(make([]byte, 0, usualAnswer))
	if _, err := answer.ReadFrom(io.LimitReader(conn, answerSize)); err != nil {
		return "", fmt.Errorf("wait for haproxy's answer: %w", err)
	}
	return answer.String(), nil
}

// parseInfo reads the lines "key: value" of show info.
func parseInfo(text string) (Info, error) {
	var out Info
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Pid":
			pid, err := strconv.Atoi(value)
			if err != nil {
				return Info{}, fmt.Errorf("haproxy's process id: %w", err)
			}
			out.PID = pid
		case "description":
			out.Fingerprint = value
		case "Stopping":
			out.Stopping = value != "0"
		}
	}
	if out.PID == 0 {
		return Info{}, errors.New("haproxy's answer to show info has no process id")
	}
	return out, nil
}
