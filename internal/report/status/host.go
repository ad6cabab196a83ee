package status

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/report/observer"
)

// Host is a host that reports about itself. It needs no API.
type Host struct {
	Name string
	// Off is true for a host of a lab that is off.
	Off bool
	// Report asks the host.
	Report func(ctx context.Context, parts ...hostreport.Part) (hostreport.Report, error)
	Now    func() time.Time
}

// Here returns the host that this runs on.
func Here(name string) *Host {
	return &Host{Name: name, Report: observer.This().Report, Now: time.Now}
}

// Below returns a host whose files lie below a folder, one of a lab.
func Below(root, name string) *Host {
	return &Host{Name: name, Off: root == "", Report: observer.Below(root, name).Report, Now: time.Now}
}

// Through returns a host whose agent is asked through a command.
func Through(name string, run host.Runner) *Host {
	return &Host{Name: name, Now: time.Now, Report: func(ctx context.Context, parts ...hostreport.Part) (hostreport.Report, error) {
		return observer.Ask(ctx, name, run, parts...)
	}}
}

// TimedOut implements Source.
func (h *Host) TimedOut(limit time.Duration) standing.Source {
	return h.failed(fmt.Sprintf("no answer within %s", limit))
}

func (h *Host) failed(why string) standing.Source {
	return standing.Source{Kind: standing.FromHost, Name: h.Name, Failed: why}
}

// Gather implements Source.
func (h *Host) Gather(ctx context.Context) standing.Facts {
	now := h.Now()
	if h.Off {
		own := standing.Host{Name: h.Name, Power: standing.Know(standing.PowerOff, "the lab", now)}
		return standing.Facts{Now: now, Sources: []standing.Source{h.failed("it is off")}, Hosts: []standing.Host{own}}
	}
	r, err := h.Report(ctx, hostreport.ForStanding()...)
	if err != nil {
		return standing.Facts{Now: now, Sources: []standing.Source{h.failed(firstLine(err.Error()))}}
	}
	return r.Standing()
}
