package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/fence/rehearsal"
	"github.com/holdfast/holdfast/internal/report/observer"
)

// verifyFlags holds the flags of fencing verify.
type verifyFlags struct {
	place                      place.Flags
	output                     string
	disruptive, calibrate, yes bool
	returns                    time.Duration
}

func newFencingVerify(streams Streams) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Make sure that each host can be fenced",
		Long: `Tests from the host that would fence that the BMC of its peer can be reached, is
trusted, accepts the account, belongs to that host (its UUID or serial number is
the host's own) and offers ForceOff and On; and measures how fast it answers.
Nothing is changed: run it at any time.

On a control-plane host it tests the BMC of the peer; run it on both hosts. With
--hosts or --lab it runs on both from elsewhere, and compares what each BMC reports with the
identity that each host reports itself.

--disruptive then crashes and recovers the hosts through Pacemaker, one after the
other, waits for full health between them, and reports the time of each phase. It
refuses if the cluster is not fully healthy. Each crash costs some seconds without
writes, and ends the pods of that host. On a host it crashes only the peer.
--calibrate sets the delay of the fence by the second host, in order of names, to
twice the worst time that a BMC took in the last ten fences of each host that cut
power, at least 3 s. It needs both crashes, so it needs --hosts or --lab.

Exit codes: 0 fencing works; 8 with --disruptive: not confirmed, nothing was crashed;
1 fencing does not work, or could not be tested; 2 wrong usage.`,
		Example: `  sudo holdfast fencing verify
  holdfast fencing verify --hosts cp-1,cp-2 -o json
  holdfast fencing verify --hosts cp-1,cp-2 --disruptive --calibrate
  holdfast fencing verify --lab default`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.run(cmd.Context(), streams)
		},
	}
	command.OutputFlag(cmd, &f.output)
	f.place.DeclareHosts(cmd)
	f.place.DeclareLab(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.disruptive, "disruptive", false, "crash and recover the hosts, one after the other")
	flags.BoolVar(&f.calibrate, "calibrate", false, "set the fence delay from what --disruptive measures")
	flags.BoolVar(&f.yes, "yes", false, "do not ask before hosts are crashed")
	flags.DurationVar(&f.returns, "timeout", rehearsal.DefaultReturn, "how long to wait until a crashed host is a voter again")
	return cmd
}

func (f *verifyFlags) check() error {
	var mistakes []error
	if n := len(f.place.Hosts); n != 0 && n != 2 {
		mistakes = append(mistakes, fmt.Errorf("--hosts: name both control planes, not %d", n))
	}
	if f.calibrate && (!f.disruptive || f.here()) {
		mistakes = append(mistakes, errors.New("--calibrate: needs --disruptive, and --hosts or --lab, because both BMCs must be measured"))
	}
	if f.returns <= 0 {
		mistakes = append(mistakes, fmt.Errorf("--timeout %s: must be positive", f.returns))
	}
	return f.place.Check(mistakes...)
}

// here reports whether the verification runs on this host alone.
func (f *verifyFlags) here() bool { return len(f.place.Hosts) == 0 && f.place.Lab == "" }

// hosts returns the hosts to work on.
func (f *verifyFlags) hosts(ctx context.Context) ([]rehearsal.Host, error) {
	if f.here() {
		return hereAndPeers()
	}
	p, err := f.place.Open(ctx)
	if err != nil {
		return nil, err
	}
	return bothHosts(p)
}

// verification is the result of a run.
type verification struct {
	verifiedBMCs
	Crashes []rehearsal.Times `json:"crashes,omitempty"`
	// Delay is the calibrated delay, zero if none was set.
	Delay time.Duration `json:"delay,omitempty"`
}

func (f *verifyFlags) run(ctx context.Context, streams Streams) error {
	var v verification
	var err error
	if f.here() {
		v.verifiedBMCs, err = verifyHere(ctx)
	} else {
		v.verifiedBMCs, err = f.verifyBoth(ctx)
	}
	if err != nil {
		return err
	}
	if f.output == "text" {
		err = v.table(streams.Out)
	}
	if err == nil {
		err = v.err()
	}
	if err == nil && f.disruptive {
		err = f.rehearse(ctx, streams, &v)
	}
	if f.output == "json" {
		err = errors.Join(command.PrintJSON(streams.Out, v), err)
	}
	return err
}

// verifyBoth makes each host test its peer's BMC, and compares the identity in
// that report with the one that the peer itself reports.
func (f *verifyFlags) verifyBoth(ctx context.Context) (verifiedBMCs, error) {
	var v verifiedBMCs
	hosts, err := f.hosts(ctx)
	if err != nil {
		return v, err
	}
	identity := map[string]hostreport.Identity{}
	for _, h := range hosts {
		one, own, err := verifyOn(ctx, h)
		if err != nil {
			v.Problems = append(v.Problems, err.Error())
			continue
		}
		identity[h.Name] = own
		v.Problems = append(v.Problems, one.Problems...)
		v.Devices = append(v.Devices, one.Devices...)
		if peer := otherOf(hosts, h.Name); !holds(one, peer) {
			v.Problems = append(v.Problems, fmt.Sprintf("%s cannot fence %s: it has no fencing device for it", h.Name, peer))
		}
	}
	for i := range v.Devices {
		d := &v.Devices[i]
		if own, ok := identity[d.Target]; ok {
			d.Compare(own.UUID, own.Serial)
		}
	}
	return v, nil
}

// otherOf returns the other one of two hosts.
func otherOf(hosts []rehearsal.Host, name string) string {
	for _, h := range hosts {
		if h.Name != name {
			return h.Name
		}
	}
	return ""
}

func holds(v verifiedBMCs, target string) bool {
	for _, d := range v.Devices {
		if d.Target == target {
			return true
		}
	}
	return false
}

// verifyOn runs the safe verification on a host, and asks the host for its own
// identity. It ignores the exit code,
// which only repeats the output.
func verifyOn(ctx context.Context, h rehearsal.Host) (verifiedBMCs, hostreport.Identity, error) {
	var v verifiedBMCs
	out, err := h.Run(ctx, "holdfast", "fencing", "verify", "-o", "json")
	if json.Unmarshal(out, &v) != nil {
		return v, hostreport.Identity{}, fmt.Errorf("verify on %s: %w", h.Name, orElse(err, "the answer cannot be parsed: holdfast is missing there, or of another version"))
	}
	r, err := observer.Ask(ctx, h.Name, h.Run, hostreport.Machine)
	return v, r.Identity.Value, err
}

// orElse returns err, or an error with the given text if err is nil.
func orElse(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

func (v verification) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	if len(v.Devices) > 0 {
		_, _ = fmt.Fprintln(t, "TARGET\tFROM\tBMC\tPOWER\tIDENTITY\tFORCEOFF\tON\tCERTIFICATE\tCONNECT\tREAD\tDELAY")
	}
	for _, d := range v.Devices {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Target, d.By, d.Address, orDash(d.Power),
			d.Identity, yesNo(d.ForceOff), yesNo(d.On), orDash(string(d.Certificate)), short(d.Connect), short(d.Slowest()), short(d.Delay))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, d := range v.Devices {
		lines(w, "problem", d, d.Problems)
		lines(w, "warning", d, d.Warnings)
	}
	for _, p := range v.Problems {
		_, _ = fmt.Fprintf(w, "problem: %s\n", p)
	}
	return nil
}

func lines(w io.Writer, kind string, d device, texts []string) {
	for _, text := range texts {
		_, _ = fmt.Fprintf(w, "%s: %s, from %s: %s\n", kind, d.Target, d.By, text)
	}
}
