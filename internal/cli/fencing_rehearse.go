package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/fence/rehearsal"
)

// rehearse crashes the hosts, reports, and calibrates if that was requested.
func (f *verifyFlags) rehearse(ctx context.Context, streams Streams, v *verification) error {
	hosts, err := f.hosts(ctx)
	if err != nil {
		return err
	}
	targets := targetsOf(hosts)
	if err := f.consent(ctx, streams, targets); err != nil {
		return err
	}
	run := rehearsal.Run{Hosts: hosts, Targets: targets, Return: f.returns, Now: time.Now, Progress: progress(streams.Err)}
	v.Crashes, err = run.Crash(ctx)
	if f.output == "text" {
		err = errors.Join(times(streams.Out, v.Crashes), err)
	}
	if err != nil {
		return err
	}
	if f.here() {
		_, err = fmt.Fprintf(streams.Err, "this host was not crashed: to test it too, run the command on %s, or with --hosts\n", strings.Join(targets, ", "))
	}
	if err == nil && f.calibrate {
		return f.setDelay(ctx, streams, hosts, v)
	}
	warnOfDelay(streams.Err, v)
	return err
}

// warnOfDelay warns if the delay is too short for the measured fences: after a
// cut both hosts could go off.
func warnOfDelay(w io.Writer, v *verification) {
	measured := rehearsal.Measured(v.Crashes)
	if len(measured) < 2 {
		return
	}
	var have time.Duration
	for _, d := range v.Devices {
		have = max(have, d.Delay)
	}
	needed, err := fencing.Calibrate(measured)
	if err != nil {
		_, _ = fmt.Fprintf(w, "warning: %v\n", err)
	} else if needed > have {
		_, _ = fmt.Fprintf(w, "warning: the fence delay is %s and should be %s: after a cut both hosts could go off; run the command with --calibrate\n", have, needed)
	}
}

// targetsOf returns the hosts to crash: those with a peer that can be asked.
func targetsOf(hosts []rehearsal.Host) []string {
	var targets []string
	for _, h := range hosts {
		if slices.ContainsFunc(hosts, func(o rehearsal.Host) bool { return o.Name != h.Name && o.Run != nil }) {
			targets = append(targets, h.Name)
		}
	}
	return targets
}

// consent asks for a yes before the first crash.
func (f *verifyFlags) consent(ctx context.Context, streams Streams, targets []string) error {
	if f.yes {
		return nil
	}
	return command.Agreed(ctx, streams, strings.Join(targets, " and ")+
		" will lose power, one after the other. Each time writes stop for some seconds and the pods of the host end.\nType yes to continue: ", "yes")
}

func progress(w io.Writer) func(string, ...any) {
	begin := time.Now()
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, "%6.1fs "+format+"\n", append([]any{time.Since(begin).Seconds()}, args...)...)
	}
}

// times prints the phases of each crash.
func times(w io.Writer, crashes []rehearsal.Times) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "\nCRASHED\tBY\tFENCED\tCONTINUED\tANSWERS\tBOTH VOTE\tDELAY WAITED\tPOWER OFF")
	for _, c := range crashes {
		held, off := time.Duration(0), time.Duration(0)
		if c.Fence != nil {
			held, off = c.Fence.Phases.Hold, c.Fence.Phases.PowerOff
		}
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", c.Target, c.By,
			short(c.Fenced), short(c.GoesOn), short(c.Answers), short(c.Healthy), short(held), short(off))
	}
	return t.Flush()
}

// setDelay sets the calibrated delay on the host that waits. Only that host
// holds the device of the host whose name comes first.
func (f *verifyFlags) setDelay(ctx context.Context, streams Streams, hosts []rehearsal.Host, v *verification) error {
	delay, err := fencing.Calibrate(rehearsal.Measured(v.Crashes))
	if err != nil {
		return err
	}
	first := slices.MinFunc(hosts, func(a, b rehearsal.Host) int { return strings.Compare(a.Name, b.Name) }).Name
	for _, h := range hosts {
		if h.Name == first {
			continue
		}
		if _, err := h.Run(ctx, "holdfast", "fencing", "delay", first, delay.String()); err != nil {
			return fmt.Errorf("set the delay on %s: %w", h.Name, err)
		}
		v.Delay = delay
		_, _ = fmt.Fprintf(streams.Err, "calibrated: %s waits %s before it fences %s\n", h.Name, delay, first)
	}
	return nil
}
