package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/model/bmc"
	"github.com/holdfast/holdfast/internal/model/state"
)

func (r *hostReplacement) order(ctx context.Context) (replacement.Order, error) {
	o := replacement.Order{
		Wish: decide.Wish{
			ID: newPlanID(), Old: r.name, New: decide.New{Name: r.next, BMC: r.bmc.address, UUID: r.uuid}, By: r.by, Why: r.reason,
			At: r.now().UTC(), Dry: r.dryRun,
			Accepts: r.accepts(),
		},
		Device: state.FencingDevice{
			Target: r.next, Address: r.bmc.address, Username: r.bmc.username, Insecure: r.bmc.verification == bmc.VerificationDisabled,
			Fingerprint: r.bmc.fingerprint, LegacyTLS: r.bmc.tls == bmc.TLSLegacy,
		},
	}
	var err error
	if o.Device.Password, err = passwordFrom(r.streams.In, r.bmc.passwordFile); err != nil {
		return o, err
	}
	if o.Own, err = r.own(); err != nil {
		return o, err
	}
	// Without an authority that vouches for it, the certificate that the BMC shows now is
	// pinned, as at an installation: the account is never sent to an unknown one.
	if o.Device, err = r.sight(ctx, o.Device); err != nil {
		return o, fmt.Errorf("read the certificate of the new BMC: %w", err)
	}
	return o, nil
}

// accepts returns the risks that the flags accept.
func (r *hostReplacement) accepts() decide.Accepts {
	return decide.Accepts{Lost: r.lost, KeepAccount: r.keepAccount, NoBackup: r.noBackup, Gone: r.gone}
}

// own returns the new account of this host's BMC, empty if it is kept.
func (r *hostReplacement) own() (replacement.Account, error) {
	account := replacement.Account{Username: r.ownUser}
	if r.ownPassword == "" {
		return account, nil
	}
	var err error
	account.Password, err = passwordFrom(r.streams.In, r.ownPassword)
	return account, err
}

// planOf returns the ID of the last plan if it is under way, or a new one.
func planOf(last *decide.Plan) string {
	if last != nil && !last.Stage.Over() {
		return last.ID
	}
	return newPlanID()
}

func newPlanID() string {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // it never fails
	return hex.EncodeToString(id)
}

// planText is what a person confirms.
func planText(o replacement.Order) string {
	w := o.Wish
	var out strings.Builder
	line := func(format string, a ...any) { _, _ = fmt.Fprintf(&out, format+"\n", a...) }
	if w.New.Name == w.Old {
		line("%s is replaced by another machine of the same name.", w.Old)
	} else {
		line("%s is replaced by another machine, %s.", w.Old, w.New.Name)
		line("  the site's configuration names %s instead, and the agent of this host is started anew; the name %s stays retired", w.New.Name, w.Old)
	}
	line("  %s is switched off, and its Node, its pods, its place in Corosync and Pacemaker are taken away", w.Old)
	line("  it stays inert if it wakes up: Corosync's key and the key of join secrets are replaced")
	line("  new BMC: %s", w.New.BMC)
	if o.Device.FirstSight {
		line("  its certificate, pinned at first sight: compare %s with the BMC's own page", redfish.PlainFingerprint(o.Device.Fingerprint))
	}
	if w.New.UUID != "" {
		line("  new machine: UUID %s, no other one is let in", w.New.UUID)
	}
	if len(w.Accepts.Lost) > 0 {
		line("  lost with it: %s", strings.Join(w.Accepts.Lost, ", "))
	}
	if w.Accepts.KeepAccount {
		line("  it keeps an account at this host's BMC: wipe its disk")
	}
	if w.Accepts.NoBackup {
		line("  without a backup: until the new host is whole, one disk holds everything")
	}
	if w.Accepts.Gone != "" {
		line("  proof: you say that the machine with the serial number or UUID %s has no power", w.Accepts.Gone)
	} else {
		line("  proof: its BMC must read Off in the moment in which it is taken out")
	}
	line("  the way back ends when it is retired, some seconds after the gates are open")
	return out.String()
}

// dry has the agent look at the gates, and tells of each.
func (r *hostReplacement) dry(ctx context.Context, o replacement.Order) error {
	if err := r.store.PutOrder(o); err != nil {
		return err
	}
	return r.gatesOf(ctx, o.Wish.ID, r.store.Doing, r.store.DropOrder)
}

// gatesOf waits until the agent has looked at the gates of a wish, drops the wish, and shows the gates.
func (r *hostReplacement) gatesOf(ctx context.Context, wish string, last func() (*replacement.Doing, error), drop func() error) error {
	limited, stop := context.WithTimeout(ctx, gatesTime)
	defer stop()
	var gates []decide.Gate
	for {
		doing, err := last()
		if err != nil {
			return errors.Join(err, drop())
		}
		if doing != nil && doing.Wish == wish {
			gates = doing.Gates
		}
		if gates != nil && len(decide.Closed(decide.BackupFirst(gates))) == 0 || r.sleep(limited, followEvery) != nil {
			break // some facts are known only after a while
		}
	}
	if err := drop(); err != nil {
		return err
	}
	if gates == nil {
		return errors.New("the agent of this host did not look at the gates: journalctl -u holdfast-agent")
	}
	return r.showGates(gates)
}

func (r *hostReplacement) showGates(gates []decide.Gate) error {
	gates = decide.BackupFirst(gates)
	if r.output == "json" || r.output == "yaml" {
		if err := printData(r.streams.Out, r.output, gates); err != nil {
			return err
		}
	} else {
		for _, g := range gates {
			if g.Open {
				line := fmt.Sprintf("%-8s open", g.ID)
				if g.Words != "" {
					line += ": " + g.Words
				}
				_, _ = fmt.Fprintln(r.streams.Out, line)
				continue
			}
			_, _ = fmt.Fprintf(r.streams.Out, "%-8s closed: %s (type: %s)\n", g.ID, g.Words, g.Way)
		}
	}
	if shut := decide.Closed(gates); len(shut) > 0 {
		return coded(command.ExitRefused, "%d gates are closed; nothing was changed", len(shut))
	}
	return nil
}
