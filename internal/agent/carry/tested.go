package carry

import (
	"context"
	"maps"
	"time"

	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
)

// How long the report of a test counts. A look comes every two seconds and waits for people, and
// each test of an account that the BMC refuses is a step towards a lockout, which would lock the
// fencing out too: Supermicro's manual has an example of two attempts within 300 s
// (decide/fencing/pace.go has iDRAC's).
const (
	countsWell    = 30 * time.Second
	countsIll     = 10 * time.Second
	countsRefused = 6 * time.Minute
)

// account is what a BMC takes or refuses, whichever machine it belongs to.
type account struct{ address, username, password string }

// Tested remembers what BMCs said. Only the loop uses it.
type Tested struct {
	test    func(context.Context, state.FencingDevice) fence.Report
	refused func(fence.Report) bool
	now     func() time.Time

	devices  map[state.FencingDevice]said
	accounts map[account]said
}

type said struct {
	report fence.Report
	until  time.Time
}

// NewTested returns a memory of what test says.
func NewTested(test func(context.Context, state.FencingDevice) fence.Report, now func() time.Time) *Tested {
	return &Tested{
		test: test, now: now, refused: func(r fence.Report) bool { return r.Repair() == state.SetAccount },
		devices: map[state.FencingDevice]said{}, accounts: map[account]said{},
	}
}

// Device returns what the BMC says of a device, or what it said of it a short time ago. Another
// password is another account, so what a person corrects is tested at once.
func (t *Tested) Device(ctx context.Context, dev state.FencingDevice) fence.Report {
	now := t.now()
	old := func(s said) bool { return !now.Before(s.until) }
	maps.DeleteFunc(t.devices, func(_ state.FencingDevice, s said) bool { return old(s) })
	maps.DeleteFunc(t.accounts, func(_ account, s said) bool { return old(s) })
	by := account{dev.Address, dev.Username, dev.Password}
	if s, is := t.accounts[by]; is {
		return s.report
	}
	if s, is := t.devices[dev]; is {
		return s.report
	}
	r := t.test(ctx, dev)
	switch now = t.now(); {
	case ctx.Err() != nil: // it says nothing of the BMC
	case t.refused(r):
		t.accounts[by] = said{r, now.Add(countsRefused)}
	case r.Err() == nil:
		t.devices[dev] = said{r, now.Add(countsWell)}
	default:
		t.devices[dev] = said{r, now.Add(countsIll)}
	}
	return r
}
