package lab

import (
	"context"
	"errors"
	"log/slog"
	"sync"
)

// FaultKind names a fault.
type FaultKind string

// Fault is one fault in force on a host.
type Fault struct {
	Kind FaultKind `json:"kind"`
	Host string    `json:"host"`
}

type faults struct {
	lab      *Lab
	log      *slog.Logger
	machines []*machine
	mu       sync.Mutex
	inForce  []Fault
}

func newFaults(b *Lab, log *slog.Logger) *faults { return &faults{lab: b, log: log} }

func (f *faults) cutPorts() map[string]bool                            { return nil }
func (f *faults) afterBoot(Host)                                       {}
func (f *faults) load(context.Context) error                           { return nil }
func (f *faults) close()                                               {}
func (f *faults) list() []Fault                                        { return nil }
func (f *faults) inject(context.Context, Fault) error                  { return errors.New("not yet") }
func (f *faults) clear(context.Context, ClearRequest) ([]Fault, error) { return nil, nil }
