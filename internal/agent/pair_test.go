package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/wiping"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// The agent may not do these acts itself. Its unit has the file before systemd is told.
func TestAnActOfThePairRunsInAUnitOfItsOwn(t *testing.T) {
	root := t.TempDir()
	var ran []string
	run := func(_ context.Context, c host.Cmd) ([]byte, error) {
		if _, err := os.Stat(filepath.Join(root, renderhost.Pair().Path)); err != nil {
			t.Errorf("%s before the unit is there: %v", c, err)
		}
		ran = append(ran, c.String())
		return nil, nil
	}
	for act := range pairActs {
		ran = nil
		if err := inPairUnit(t.Context(), run, root, act); err != nil {
			t.Error(err)
		}
		if want := []string{"systemctl daemon-reload", "systemctl start holdfast-pair@" + act + ".service"}; !slices.Equal(ran, want) {
			t.Errorf("%q, want %q", ran, want)
		}
	}
	text := string(renderhost.Pair().Data)
	if !strings.Contains(text, "holdfast-agent pair %i\n") || strings.Contains(text, "Protect") {
		t.Errorf("it has to write what the agent may not:\n%s", text)
	}
}

func TestAWipeStopsEachActOfThePair(t *testing.T) {
	for act := range pairActs {
		if unit := renderhost.PairOf(act); !slices.Contains(wiping.All().Stop, unit) {
			t.Errorf("%s is not stopped", unit)
		}
	}
}

func TestAnActThatFailsSaysWhatItsUnitSaid(t *testing.T) {
	root, failed := t.TempDir(), errors.New("exit status 1")
	act := func() error { return nil }
	run := func(_ context.Context, c host.Cmd) ([]byte, error) {
		if !slices.Contains(c.Args, "start") {
			return nil, nil
		}
		if noted(root, act) == nil {
			return nil, nil
		}
		return nil, failed
	}
	act = func() error { return errors.New("packages missing on this host: pcs") }
	want := "packages missing on this host: pcs (journalctl -u holdfast-pair@equip.service)"
	if err := inPairUnit(t.Context(), run, root, pairEquip); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	silent := func(_ context.Context, c host.Cmd) ([]byte, error) {
		if slices.Contains(c.Args, "start") {
			return nil, failed // the unit never ran, and an earlier note is gone
		}
		return nil, nil
	}
	if err := inPairUnit(t.Context(), silent, root, pairEquip); err == nil || !strings.HasPrefix(err.Error(), "exit status 1; journalctl") {
		t.Error(err)
	}
	act = func() error { return nil }
	if err := inPairUnit(t.Context(), run, root, pairEquip); err != nil {
		t.Errorf("the next try: %v", err)
	}
}

// TestTwoActsOfThePairNeverRunAtOnce: one that outlives its agent runs on while the plan is taken back.
func TestTwoActsOfThePairNeverRunAtOnce(t *testing.T) {
	root := t.TempDir()
	begun, end := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- alone(t.Context(), root, func() error { close(begun); <-end; return nil })
	}()
	<-begun
	ctx, stop := context.WithTimeout(t.Context(), 2*pairWait)
	defer stop()
	if err := alone(ctx, root, func() error { t.Error("both run"); return nil }); err == nil || !strings.Contains(err.Error(), "another act of the plan still runs") {
		t.Error(err)
	}
	second := make(chan error, 1)
	go func() { second <- alone(t.Context(), root, func() error { return errors.New("its own end") }) }()
	close(end)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-second; err == nil || err.Error() != "its own end" {
		t.Errorf("it waits for the first one, and runs then: %v", err)
	}
}
