package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/cli/command"
	"github.com/holdfast/holdfast/internal/cli/place"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

// pinFlags holds the flags of fencing pin.
type pinFlags struct {
	place               place.Flags
	fingerprint, output string
	dryRun, yes         bool
}

func newFencingPin(streams Streams) *cobra.Command {
	var f pinFlags
	cmd := &cobra.Command{
		Use:   "pin NODE",
		Short: "Trust the certificate that the BMC of a node shows, and no other",
		Long: `Shows the certificate that is pinned for the BMC of a node and the one that the BMC
shows now. Pins the second one after you have compared it with the BMC's own page.
Run it on the host that fences the node: its peer.

The first successful test of a BMC pins its certificate if no authority vouches for
it (certificateVerification: Disabled). From then on any other certificate is
refused: the account is not sent to it, and its answer Off proves nothing. Many BMCs
make a new certificate at a firmware update, when they get another name, or each
year. Such a BMC cannot be used for fencing until its certificate is accepted here.
If you accept it without comparing, you may trust a man in the middle.

Before anything is written, the account is tried over the new connection: the BMC
must accept it and must be that of this node. Then the device on this host and the
Secret openshift-etcd/fencing-credentials-NODE are written; without an API the
Secret follows later.

Exit codes: 0 the certificate is pinned, now or before; 8 not confirmed, nothing was
changed; 1 nothing was changed, or it failed; 2 wrong usage.`,
		Example: `  sudo holdfast fencing pin cp-1 --dry-run
  sudo holdfast fencing pin cp-1
  sudo holdfast fencing pin cp-1 --fingerprint 3f9c...e1
  sudo holdfast fencing pin cp-1 --dry-run -o json | jq .shown.fingerprint`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if err := needFencingRoot(); err != nil {
				return err
			}
			open := func() (fence.Secrets, error) { return ownCluster(cmd.Context(), &f.place) }
			p := pinning{pinFlags: f, streams: streams, store: fence.NewStore(), shown: shownBy, cluster: open, clear: clearFailures}
			return p.run(cmd.Context(), args[0])
		},
	}
	command.OutputFlag(cmd, &f.output)
	flags := cmd.Flags()
	flags.StringVar(&f.fingerprint, "fingerprint", "", "SHA-256 of the certificate, as the BMC's own page shows it: any other is refused; asks no question")
	flags.BoolVar(&f.dryRun, "dry-run", false, "show both certificates and change nothing")
	flags.BoolVar(&f.yes, "yes", false, "do not ask whether the certificate was compared")
	f.place.DeclareOwnKubeconfig(cmd)
	return cmd
}

func (f *pinFlags) check() error {
	var mistake error
	if f.fingerprint != "" && !bmc.IsFingerprint(f.fingerprint) {
		mistake = fmt.Errorf("--fingerprint %q: must be a SHA-256 in hex, 64 digits, with or without colons", f.fingerprint)
	}
	return f.place.Check(mistake)
}

// pinning is one run of fencing pin.
type pinning struct {
	pinFlags
	streams Streams
	store   fence.Store
	shown   func(context.Context, state.FencingDevice) (redfish.ShownCertificate, error)
	cluster func() (fence.Secrets, error)
	clear   func(ctx context.Context, target string) error
}

// pins holds both certificates of a BMC.
type pins struct {
	Target  string `json:"target"`
	Address string `json:"address"`
	// Pinned is the fingerprint that is trusted, empty if there is none. FirstSight
	// is true if no administrator has compared it.
	Pinned     string                   `json:"pinned"`
	FirstSight bool                     `json:"firstSight,omitempty"`
	Shown      redfish.ShownCertificate `json:"shown"`
	Same       bool                     `json:"same"`
}

// acceptedPin is the output for a program.
type acceptedPin struct {
	pins
	rotated
}

// shownTime bounds the reading of a certificate.
const shownTime = 40 * time.Second

// shownBy returns the certificate that a device's BMC shows now. It sends the
// BMC no account.
func shownBy(ctx context.Context, dev state.FencingDevice) (redfish.ShownCertificate, error) {
	address, err := bmc.Parse(dev.Address)
	if err != nil {
		return redfish.ShownCertificate{}, err
	}
	return redfish.CertificateShown(ctx, redfish.Endpoint{Address: address, Name: dev.Target, Timeout: shownTime})
}

func (p *pinning) run(ctx context.Context, target string) error {
	dev, err := p.store.Read(target)
	if err != nil {
		return err
	}
	both := pins{Target: target, Address: dev.Address, Pinned: redfish.PlainFingerprint(dev.Fingerprint), FirstSight: dev.FirstSight}
	if both.Shown, err = p.shown(ctx, dev); err != nil {
		return err
	}
	both.Same = both.Shown.Fingerprint == both.Pinned
	if p.output == "text" {
		if err := both.text(p.streams.Out); err != nil {
			return err
		}
	}
	if p.dryRun || both.Same && !both.FirstSight {
		if p.output == "json" {
			return command.PrintJSON(p.streams.Out, both)
		}
		return nil
	}
	if err := p.accepted(ctx, both); err != nil {
		return err
	}
	return p.pin(ctx, both)
}

func (b pins) text(w io.Writer) error {
	how := ""
	if b.FirstSight {
		how = ", pinned at first sight; not compared by an administrator"
	}
	verdict := "the BMC shows a certificate OTHER than the pinned one"
	switch {
	case b.Same:
		verdict = "the BMC shows the pinned certificate"
	case b.Pinned == "":
		verdict = "no certificate is pinned"
	}
	issuer := b.Shown.Issuer
	if issuer == b.Shown.Subject {
		issuer = "itself"
	}
	_, err := fmt.Fprintf(w, "BMC of %s at %s: %s\n  pinned  SHA-256 %s%s\n  shown   SHA-256 %s\n          of %s, signed by %s, from %s to %s\n",
		b.Target, b.Address, verdict, orDash(b.Pinned), how, b.Shown.Fingerprint, orDash(b.Shown.Subject), orDash(issuer),
		b.Shown.Begins.UTC().Format(time.DateOnly), b.Shown.Ends.UTC().Format(time.DateOnly))
	return err
}

// accepted checks that the administrator means the certificate that the BMC
// shows.
func (p *pinning) accepted(ctx context.Context, both pins) error {
	if p.fingerprint != "" {
		if named := redfish.PlainFingerprint(p.fingerprint); named != both.Shown.Fingerprint {
			return fmt.Errorf("nothing was changed: the BMC of %s shows SHA-256 %s, but --fingerprint is %s: there may be a man in the middle", both.Target, both.Shown.Fingerprint, named)
		}
		return nil
	}
	if p.yes {
		return nil
	}
	return command.Agreed(ctx, p.streams, "Compare the shown certificate with the BMC's own page, or with its vendor's tool on the host.\nType yes if they are the same: ", "yes")
}

// pin writes the accepted certificate, after it has tested the account over a
// connection with that certificate.
func (p *pinning) pin(ctx context.Context, both pins) error {
	result, told, err := p.store.Change(ctx, both.Target, func(dev state.FencingDevice) (state.FencingDevice, error) {
		if dev.Address != both.Address {
			return dev, fmt.Errorf("the address of the BMC of %s has changed to %s: run the command again", both.Target, dev.Address)
		}
		dev.Fingerprint, dev.FirstSight = both.Shown.Fingerprint, false
		return dev, fence.CheckDevice(dev)
	}, lazySecrets(p.cluster))
	if err != nil {
		return err
	}
	out := outcomeOf(ctx, both.Target, result, told, p.clear)
	if p.output == "json" {
		return command.PrintJSON(p.streams.Out, acceptedPin{both, out})
	}
	_, err = fmt.Fprintf(p.streams.Out, "pinned: the BMC accepts the account and belongs to %s (identity %s)\n", both.Target, result.Report.Identity)
	return errors.Join(err, out.text(p.streams, told))
}
