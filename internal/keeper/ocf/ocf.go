// Package ocf is the resource agent ocf:holdfast:podman-etcd as Pacemaker calls
// it. Each action is one request to the host's daemon, with its own deadline
// inside that of the action.
package ocf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/keeper"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
)

// isAction reports whether name is an action of the agent.
func isAction(name string) bool {
	for _, a := range podmanetcd.Actions() {
		if a.Name == name {
			return true
		}
	}
	return false
}

// action carries out one action and returns its exit code.
func (p program) action(ctx context.Context, environ []string, s command.Streams, name string) int {
	env := variables(environ)
	switch name {
	case "meta-data":
		return metaData(s)
	case "validate-all":
		_, err := podmanetcd.Parse(env.parameters())
		return end(s, misconfigured(err))
	case "start", "stop", "monitor", "notify", "reload-agent":
		ctx, cancel := context.WithTimeout(ctx, env.budget())
		defer cancel()
		return end(s, p.agent.request(ctx, name, env))
	}
	return end(s, podmanetcd.Answer{Code: podmanetcd.Unimplemented, Reason: "action " + name + " is unknown"})
}

func metaData(s command.Streams) int {
	doc, err := podmanetcd.MetaData()
	if err == nil {
		_, err = s.Out.Write(doc)
	}
	if err != nil {
		return end(s, podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()})
	}
	return int(podmanetcd.Success)
}

func misconfigured(err error) podmanetcd.Answer {
	if err == nil {
		return podmanetcd.Answer{}
	}
	return podmanetcd.Answer{Code: podmanetcd.Misconfigured, Reason: strings.ReplaceAll(err.Error(), "\n", "; ")}
}

// end prints the reason in the form that Pacemaker stores and shows, and
// returns the exit code.
func end(s command.Streams, a podmanetcd.Answer) int {
	if a.Reason != "" {
		_, _ = fmt.Fprintf(s.Err, "ocf-exit-reason:%s\n", a.Reason)
	}
	return int(a.Code)
}

// env holds the parameters and meta variables that Pacemaker passes.
type env map[string]string

func variables(environ []string) env {
	out := env{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if rest, ok := strings.CutPrefix(name, "OCF_RESKEY_"); ok {
			out[rest] = value
		}
	}
	return out
}

func (e env) parameters() map[string]string {
	out := map[string]string{}
	for _, name := range podmanetcd.Names() {
		if v, ok := e[name]; ok {
			out[name] = v
		}
	}
	return out
}

// reserve is the part of an action's time that is kept for reporting its
// outcome.
const reserve = time.Second

// budget returns how long the action may take: the time that Pacemaker grants,
// less reserve.
func (e env) budget() time.Duration {
	ms, err := strconv.Atoi(e["CRM_meta_timeout"])
	if err != nil || ms <= 0 {
		ms = 20_000 // Pacemaker's own default
	}
	return max(time.Duration(ms)*time.Millisecond-reserve, reserve)
}

// agent asks the daemon. If the daemon does not answer, it looks at etcd
// itself.
type agent struct {
	socket string
	alone  keeper.WithoutKeeper
}

// settle is how long an action waits for a daemon that is restarting.
const settle = 5 * time.Second

// ownLook is the part of an action's time that is kept for a look of its own.
const ownLook = 3 * time.Second

// request asks the daemon. A daemon that cannot be reached says nothing about
// etcd: a restart by Pacemaker would end a healthy member, and a failed stop
// has the host fenced. So the action then looks for itself.
func (a agent) request(ctx context.Context, action string, e env) podmanetcd.Answer {
	var body []byte
	if action == "start" || action == "reload-agent" {
		p, err := podmanetcd.Parse(e.parameters())
		if err != nil {
			return misconfigured(err)
		}
		if body, err = json.Marshal(p); err != nil {
			return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()}
		}
	}
	asking := ctx
	if until, ok := ctx.Deadline(); ok {
		limited, cancel := context.WithDeadline(ctx, until.Add(-min(ownLook, time.Until(until)/2)))
		defer cancel()
		asking = limited
	}
	answer, err := a.patient(asking, action, body)
	if err == nil {
		return answer
	}
	return a.unanswered(ctx, action, err)
}

// unanswered answers Pacemaker without the daemon. If nobody listens on the
// socket, a stop ends etcd itself; a daemon that is there and hangs may still
// be at work.
func (a agent) unanswered(ctx context.Context, action string, err error) podmanetcd.Answer {
	reason := fmt.Sprintf("podman-etcd.service does not answer: %v; see: systemctl status podman-etcd", err)
	switch {
	case action == "notify":
		return podmanetcd.Answer{Code: podmanetcd.Success, Reason: reason}
	case action == "monitor":
		code, why := podmanetcd.Unanswered(reason, exists(a.socket), a.alone.See())
		return podmanetcd.Answer{Code: code, Reason: why}
	case action == "stop" && errors.Is(err, keeperclient.ErrNotRunning):
		return a.alone.Stop(ctx)
	case action == "stop":
		return a.alone.Confirm(reason)
	}
	return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: reason}
}

// patient asks until there is an answer. It asks again if the daemon ends
// during the request, and for up to settle if nobody listens.
func (a agent) patient(ctx context.Context, action string, body []byte) (podmanetcd.Answer, error) {
	var down time.Time
	for {
		var answer podmanetcd.Answer
		err := keeperclient.Send(ctx, a.socket, action, body, &answer)
		_, unsent := errors.AsType[*url.Error](err)
		switch {
		case err == nil || ctx.Err() != nil || !unsent && !errors.Is(err, io.ErrUnexpectedEOF):
			return answer, err
		case !errors.Is(err, keeperclient.ErrNotRunning):
			down = time.Time{}
		case down.IsZero():
			down = time.Now()
		case time.Since(down) > settle:
			return answer, err
		}
		if host.Sleep(ctx, 100*time.Millisecond) != nil {
			return answer, err
		}
	}
}
