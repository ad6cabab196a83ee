package bmc

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeMachine is a machine that obeys, and notices two commands at once.
type fakeMachine struct {
	takes time.Duration // of each operation
	soft  time.Duration // from a soft request to the host's end; 0 means never

	mu      sync.Mutex
	on      bool
	busy    bool
	overlap bool
	fail    error
	calls   []string
}

func (m *fakeMachine) Power(context.Context) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on, m.fail
}

func (m *fakeMachine) PowerOn(ctx context.Context) error {
	return m.do(ctx, "on", func() { m.on = true })
}

func (m *fakeMachine) PowerOff(ctx context.Context) error {
	return m.do(ctx, "off", func() { m.on = false })
}

func (m *fakeMachine) Shutdown(ctx context.Context) error {
	if m.soft > 0 {
		time.AfterFunc(m.soft, func() { m.set(false) })
	}
	return m.do(ctx, "shutdown", func() {})
}

func (m *fakeMachine) do(ctx context.Context, what string, change func()) error {
	m.mu.Lock()
	m.overlap = m.overlap || m.busy
	m.busy = true
	m.calls = append(m.calls, what)
	fail := m.fail
	m.mu.Unlock()
	if m.takes > 0 {
		select {
		case <-time.After(m.takes):
		case <-ctx.Done():
			fail = ctx.Err()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.busy = false
	if fail == nil {
		change()
	}
	return fail
}

func (m *fakeMachine) set(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.on = on
}

func (m *fakeMachine) isOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

func (m *fakeMachine) called() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.calls...)
}

// inBubble runs a test with its own clock and the power of a machine.
func inBubble(t *testing.T, m *fakeMachine, test func(t *testing.T, p *power)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := newPower(m, slog.New(slog.DiscardHandler))
		p.behave(func(b *Behaviour) { b.POST = DefaultPOSTDelay })
		test(t, p)
		p.close()
	})
}

func ask(t *testing.T, p *power, r ResetType) {
	t.Helper()
	if err := p.reset(t.Context(), r); err != nil {
		t.Fatalf("%s: %v", r, err)
	}
}

func wantShown(t *testing.T, p *power, want PowerState) {
	t.Helper()
	synctest.Wait()
	s, err := p.observe(t.Context())
	if err != nil || s.Shown() != want {
		t.Fatalf("shows %s (%v, error %v), want %s", s.Shown(), s.Phase, err, want)
	}
}

func TestHostBootsOnlyAfterPOST(t *testing.T) {
	m := &fakeMachine{}
	inBubble(t, m, func(t *testing.T, p *power) {
		ask(t, p, ResetOn)
		wantShown(t, p, PowerOn)
		time.Sleep(DefaultPOSTDelay - time.Second)
		if synctest.Wait(); m.isOn() {
			t.Fatal("the host booted before POST ended")
		}
		time.Sleep(time.Second)
		if synctest.Wait(); !m.isOn() {
			t.Fatal("the host did not boot after POST")
		}
	})
}

func TestInstantBoot(t *testing.T) {
	m := &fakeMachine{}
	inBubble(t, m, func(t *testing.T, p *power) {
		p.behave(func(b *Behaviour) { b.POST = 0 })
		ask(t, p, ResetOn)
		if synctest.Wait(); !m.isOn() {
			t.Fatal("the host did not boot at once")
		}
	})
}

func TestPowerOffDuringPOSTCancelsTheBoot(t *testing.T) {
	m := &fakeMachine{}
	inBubble(t, m, func(t *testing.T, p *power) {
		ask(t, p, ResetOn)
		time.Sleep(30 * time.Second)
		ask(t, p, ResetForceOff)
		wantShown(t, p, PowerOff)
		time.Sleep(10 * time.Minute)
		if synctest.Wait(); m.isOn() {
			t.Fatal("the host booted after it was switched off")
		}
	})
}

func TestOffIsShownOnlyOnceTheMachineIsDead(t *testing.T) {
	m := &fakeMachine{on: true, takes: 3 * time.Second}
	inBubble(t, m, func(t *testing.T, p *power) {
		p.behave(func(b *Behaviour) { b.OffDelay = 5 * time.Second })
		ask(t, p, ResetForceOff)
		for range 7 {
			wantShown(t, p, PoweringOff)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		wantShown(t, p, PowerOff)
		if m.isOn() {
			t.Fatal("shows Off while the machine is on")
		}
	})
}

func TestAMachineThatCannotBeCutIsStillOn(t *testing.T) {
	m := &fakeMachine{on: true}
	inBubble(t, m, func(t *testing.T, p *power) {
		if _, err := p.observe(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.fail = errors.New("container runtime is gone")
		if err := p.reset(t.Context(), ResetForceOff); err == nil {
			t.Fatal("a reset is accepted though the power is not known")
		}
		if err := p.cut(t.Context()); err == nil {
			t.Fatal("a cut that failed says that it worked")
		}
		m.fail = nil
		wantShown(t, p, PowerOn)
	})
}

func TestPowerOffThatSticks(t *testing.T) {
	m := &fakeMachine{on: true}
	inBubble(t, m, func(t *testing.T, p *power) {
		p.behave(func(b *Behaviour) { b.OffSticks = true })
		ask(t, p, ResetForceOff)
		time.Sleep(time.Hour)
		wantShown(t, p, PoweringOff)
		if !m.isOn() {
			t.Fatal("the machine was cut")
		}
		p.behave(func(b *Behaviour) { b.OffSticks = false })
		wantShown(t, p, PowerOn)
		ask(t, p, ResetForceOff)
		wantShown(t, p, PowerOff)
	})
}

func TestRestarts(t *testing.T) {
	cases := []struct {
		name     string
		reset    ResetType
		soft     time.Duration
		offShown bool
		first    string
	}{
		{"ForceRestart never shows Off", ResetForceRestart, 0, false, "off"},
		{"PowerCycle shows Off", ResetPowerCycle, 0, true, "off"},
		{"GracefulRestart waits for the host", ResetGracefulRestart, 20 * time.Second, false, "shutdown"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := &fakeMachine{on: true, soft: c.soft}
			inBubble(t, m, func(t *testing.T, p *power) {
				ask(t, p, c.reset)
				sawOff := false
				for range 700 {
					s, err := p.observe(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					sawOff = sawOff || s.Shown() == PowerOff
					time.Sleep(100 * time.Millisecond)
				}
				calls := m.called()
				if !m.isOn() || len(calls) != 2 || calls[0] != c.first || calls[1] != "on" {
					t.Errorf("machine on %v after %v", m.isOn(), calls)
				}
				if sawOff != c.offShown {
					t.Errorf("Off was shown: %v, want %v", sawOff, c.offShown)
				}
			})
		})
	}
}

func TestSoftShutdownIsTheHostsOwn(t *testing.T) {
	m := &fakeMachine{on: true, soft: 10 * time.Second}
	inBubble(t, m, func(t *testing.T, p *power) {
		ask(t, p, ResetGracefulShutdown)
		time.Sleep(9 * time.Second)
		wantShown(t, p, PowerOn)
		time.Sleep(2 * time.Second)
		wantShown(t, p, PowerOff)
		time.Sleep(time.Hour)
		if m.isOn() {
			t.Fatal("the host came back")
		}
	})
}

func TestCutIgnoresAllThatIsPending(t *testing.T) {
	m := &fakeMachine{on: true, takes: time.Second}
	inBubble(t, m, func(t *testing.T, p *power) {
		p.behave(func(b *Behaviour) { b.OffSticks = true })
		ask(t, p, ResetForceOff)
		if err := p.cut(t.Context()); err != nil || m.isOn() {
			t.Fatalf("error %v, machine on %v", err, m.isOn())
		}
		wantShown(t, p, PowerOff)
		ask(t, p, ResetOn)
		time.Sleep(DefaultPOSTDelay + 100*time.Millisecond) // the machine is being started
		if err := p.cut(t.Context()); err != nil || m.isOn() {
			t.Fatalf("error %v, machine on %v", err, m.isOn())
		}
		time.Sleep(time.Hour)
		wantShown(t, p, PowerOff)
	})
}

func TestCloseDropsThePendingBoot(t *testing.T) {
	m := &fakeMachine{}
	inBubble(t, m, func(t *testing.T, p *power) {
		ask(t, p, ResetOn)
		p.close()
		time.Sleep(time.Hour)
		if m.isOn() {
			t.Fatal("the host booted after its controller was closed")
		}
		if err := p.cut(t.Context()); err == nil {
			t.Fatal("a closed controller says that it cut the power")
		}
	})
}

// TestConcurrentRequestsNeitherOverlapNorLie lets eight clients switch and read
// at once. TestNoSequenceShowsOffOfALiveMachine checks that Off is never shown
// of a living machine, whatever the order.
func TestConcurrentRequestsNeitherOverlapNorLie(t *testing.T) {
	m := &fakeMachine{takes: 3 * time.Millisecond}
	inBubble(t, m, func(t *testing.T, p *power) {
		p.behave(func(b *Behaviour) { b.POST = 0 })
		var clients sync.WaitGroup
		for n := range 8 {
			clients.Go(func() { hammer(t, p, n) })
		}
		clients.Wait()
		if err := p.cut(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantShown(t, p, PowerOff)
		if m.isOn() || m.overlap {
			t.Errorf("after the cut the machine is on: %v; two operations at once: %v", m.isOn(), m.overlap)
		}
		if n := len(m.called()); n < 100 {
			t.Errorf("only %d operations: the test shows nothing", n)
		}
	})
}

// hammer is one client of many.
func hammer(t *testing.T, p *power, n int) {
	types := ResetTypes()
	for i := range 300 {
		_ = p.reset(t.Context(), types[(n*7+i)%len(types)]) // conflicts are part of it
		if _, err := p.observe(t.Context()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Duration(1+(n+i)%5) * time.Millisecond)
	}
}
