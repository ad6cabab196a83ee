package agent

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/agent/install"
	"github.com/holdfast/holdfast/internal/agent/loop"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/doctor"
)

// The age at which a report is made anew, and the pause between two looks whether
// that is so. An administrator with only the API does not need the report sooner,
// and each write costs every host's watch one event of some kB.
const (
	doctorAge   = 30 * time.Minute
	doctorLook  = time.Minute
	doctorLimit = 5 * time.Minute
)

// doctorPublisher publishes this control plane's doctor report in the API, for an
// administrator who runs `holdfast doctor` without access to the hosts. It alone
// writes the annotation, and only on its own node.
type doctorPublisher struct {
	look func(context.Context) decide.Host
	tell func(ctx context.Context, node, value string) error
	// stage tells how far the installation of this host has come. A report from an
	// earlier stage complains of what has been made since.
	stage func() doctorStage
	now   func() time.Time

	published time.Time   // zero: not yet
	of        doctorStage // at the start of the look that was published
}

// doctorStage is how far a host's installation has come, as far as doctor looks at what
// it makes.
type doctorStage struct{ Installed, Corosync, Record bool }

func thisDoctorStage() doctorStage {
	return doctorStage{Installed: host.Exists(install.CompletePath), Corosync: host.Exists(corosync.Path), Record: records.Files{}.HasRecord()}
}

func newDoctorPublisher() *doctorPublisher {
	return &doctorPublisher{
		stage: thisDoctorStage, now: time.Now,
		look: func(ctx context.Context) decide.Host { return doctor.ObserveThisHost(ctx, false) },
		tell: func(ctx context.Context, node, value string) error {
			c, err := kube.Open(state.AgentKubeconfig)
			if err != nil {
				return err
			}
			return c.Annotate(ctx, node, decide.Annotation, value)
		},
	}
}

// task publishes now and then, and when the installation has come further. An API that
// is away is told later.
func (p *doctorPublisher) task() loop.Task {
	return loop.Task{Name: "doctor report", Every: doctorLook, Limit: doctorLimit, Spared: true, Step: func(ctx context.Context) (loop.Result, error) {
		began, stage := p.now(), p.stage()
		if !p.published.IsZero() && stage == p.of && began.Sub(p.published) < doctorAge {
			return loop.Result{}, nil
		}
		if err := p.publish(ctx); err != nil {
			return loop.Result{}, err
		}
		p.published, p.of = began, stage
		return loop.Result{}, nil
	}}
}

func (p *doctorPublisher) publish(ctx context.Context) error {
	h := presentable(p.look(ctx))
	value, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return p.tell(ctx, h.Name, string(value))
}

// The bounds of the published troubles: how many, and bytes of each.
const (
	maxTroubles = 10
	maxTrouble  = 160
)

// presentable returns h without what not everybody with access to nodes may see:
// it hides the addresses of BMCs and bounds the troubles.
func presentable(h decide.Host) decide.Host {
	list := append([]decide.BMC{}, h.BMCs.Value...) // a nil list would read as unknown
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
