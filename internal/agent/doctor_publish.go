package agent

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/doctor"
)

// How often a host says what it is like: whoever has only the API need not know
// it sooner, and each time costs every host's watch one event of some kB.
const (
	doctorEvery = 30 * time.Minute
	doctorAgain = time.Minute
	doctorLimit = 5 * time.Minute
)

// doctorPublisher tells the API what this control plane is like, for whoever
// runs `holdfast doctor` without access to hosts. It is the one writer of the
// annotation, of its own node alone.
type doctorPublisher struct {
	look func(context.Context) decide.Host
	tell func(ctx context.Context, node, value string) error
}

func newDoctorPublisher() doctorPublisher {
	return doctorPublisher{
		look: func(ctx context.Context) decide.Host {
			s, _ := doctor.ReadSite() // without it the agent would not run
			return doctor.This(s, false).Host(ctx)
		},
		tell: func(ctx context.Context, node, value string) error {
			c, err := kube.Open(state.AgentKubeconfig)
			if err != nil {
				return err
			}
			return c.Annotate(ctx, node, decide.Annotation, value)
		},
	}
}

// task publishes now and then. An API that is away is told later.
func (p doctorPublisher) task() loop.Task {
	return loop.Task{Name: "doctor report", Every: doctorEvery, Retry: doctorAgain, Limit: doctorLimit, Spared: true, Step: func(ctx context.Context) (loop.Result, error) {
		return loop.Result{}, p.publish(ctx)
	}}
}

func (p doctorPublisher) publish(ctx context.Context) error {
	h := presentable(p.look(ctx))
	value, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return p.tell(ctx, h.Name, string(value))
}

// The bounds of what is published of troubles.
const (
	maxTroubles = 10
	maxTrouble  = 160
)

// presentable is what everybody may see who can read nodes: where BMCs are is
// not in it.
func presentable(h decide.Host) decide.Host {
	list := append([]decide.BMC{}, h.BMCs.Value...) // one that is nil would read as unknown
	for i := range list {
		if list[i].Address != "" {
			list[i].Address = "hidden"
		}
		list[i].Gateway = hidden(list[i].Gateway)
	}
	h.BMCs = state.Fact[[]decide.BMC]{Known: h.BMCs.Known, Value: list}
	var trouble []string
	for _, t := range h.Trouble[:min(len(h.Trouble), maxTroubles)] {
		trouble = append(trouble, strings.ToValidUTF8(t[:min(len(t), maxTrouble)], ""))
	}
	h.Trouble = trouble
	return h
}

func hidden(s string) string {
	if s == "" {
		return ""
	}
	return "hidden"
}
