// Package ocf is the resource agent ocf:holdfast:podman-etcd as Pacemaker calls
// it: each action is one request to the host's daemon, with a deadline of its
// own inside that of the action.
package ocf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/command"
	"github.com/holdfast/holdfast/internal/decide/podmanetcd"
	"github.com/holdfast/holdfast/internal/etcdagent"
	"github.com/holdfast/holdfast/internal/host"
	"github.com/holdfast/holdfast/internal/state"
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

// Run carries out one action and returns its exit code.
func Run(ctx context.Context, environ []string, s command.Streams, action string) int {
	env := variables(environ)
	switch action {
	case "meta-data":
		return metaData(s)
	case "validate-all":
		_, err := podmanetcd.Parse(env.parameters())
		return end(s, misconfigured(err))
	case "start", "stop", "monitor", "notify":
		ctx, cancel := context.WithTimeout(ctx, env.budget())
		defer cancel()
		return end(s, request(ctx, state.EtcdSocketPath, action, env))
	}
	return end(s, podmanetcd.Answer{Code: podmanetcd.Unimplemented, Reason: "action " + action + " is unknown"})
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

// end tells the reason in the form that Pacemaker keeps and shows.
func end(s command.Streams, a podmanetcd.Answer) int {
	if a.Reason != "" {
		_, _ = fmt.Fprintf(s.Err, "ocf-exit-reason:%s\n", a.Reason)
	}
	return int(a.Code)
}

// env are the variables that Pacemaker passes.
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

// reserve is left of an action's time for telling how it ended.
const reserve = time.Second

// budget is how long the action may take: what Pacemaker grants, less reserve.
func (e env) budget() time.Duration {
	ms, err := strconv.Atoi(e["CRM_meta_timeout"])
	if err != nil || ms <= 0 {
		ms = 20_000 // Pacemaker's own default
	}
	return max(time.Duration(ms)*time.Millisecond-reserve, reserve)
}

// settle is how long an action waits for a daemon that is just restarting.
const settle = 5 * time.Second

// request asks the daemon. A daemon that cannot be asked says nothing about
// etcd: a monitor and a notify then succeed while its socket is there, since a
// restart by Pacemaker would end a healthy member.
func request(ctx context.Context, socket, action string, e env) podmanetcd.Answer {
	var body []byte
	if action == "start" {
		p, err := podmanetcd.Parse(e.parameters())
		if err != nil {
			return misconfigured(err)
		}
		if body, err = json.Marshal(p); err != nil {
			return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: err.Error()}
		}
	}
	answer, err := patient(ctx, socket, action, body)
	if err == nil {
		return answer
	}
	return unanswered(action, socket, err)
}

func unanswered(action, socket string, err error) podmanetcd.Answer {
	reason := fmt.Sprintf("podman-etcd.service does not answer: %v; see: systemctl status podman-etcd", err)
	switch {
	case action == "notify":
		return podmanetcd.Answer{Code: podmanetcd.Success, Reason: reason}
	case action == "monitor" && held():
		return podmanetcd.Answer{Code: podmanetcd.Success, Reason: reason}
	case action == "monitor" && !exists(socket):
		return podmanetcd.Answer{Code: podmanetcd.NotRunning, Reason: ""}
	}
	return podmanetcd.Answer{Code: podmanetcd.Generic, Reason: reason}
}

// patient asks until there is an answer, as long as settle allows.
func patient(ctx context.Context, socket, action string, body []byte) (podmanetcd.Answer, error) {
	until, stop := context.WithTimeout(ctx, settle)
	defer stop()
	for {
		answer, err := ask(ctx, socket, action, body)
		if err == nil || !errors.Is(err, etcdagent.ErrDown) || host.Sleep(until, 100*time.Millisecond) != nil {
			return answer, err
		}
	}
}

func ask(ctx context.Context, socket, action string, body []byte) (answer podmanetcd.Answer, err error) {
	err = etcdagent.Order(ctx, socket, action, body, &answer)
	return answer, err
}
