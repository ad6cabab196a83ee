package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/observe"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/fencing"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/explain"
	"github.com/holdfast/holdfast/internal/report/ownplace"
)

// quorumHost holds all access to the host that a confirmation needs.
type quorumHost struct {
	// report asks the etcd keeper. Its error is explain.ErrNoAgent if the keeper
	// does not answer.
	report func(context.Context) (state.EtcdReport, error)
	// power returns the power state that the BMC of a host reports. off cuts the
	// host's power and returns nil only after the BMC has read back Off.
	power func(ctx context.Context, peer string) (string, error)
	// replaced says when and by whom another machine got the place of this host, empty if
	// nothing says so; nil for a recorded host.
	replaced func(context.Context) string
	off      func(ctx context.Context, peer string) error
	boot     func() (id string, uptime time.Duration, err error)
	// confirm passes the confirmation to the etcd keeper; audit records it
	// permanently.
	confirm func(state.Confirmation) error
	audit   func(state.ConfirmationEntry) error
	// tellPacemaker makes Pacemaker count a host as safely down.
	tellPacemaker func(ctx context.Context, peer string) error
	now           func() time.Time
	sleep         func(context.Context, time.Duration) error
}

// bmcTime bounds one reading of a BMC.
const bmcTime = fencing.LongestAnswer + 5*time.Second

func thisHost() quorumHost {
	return quorumHost{
		report: func(ctx context.Context) (state.EtcdReport, error) { return explain.Ask(ctx, state.EtcdSocketPath) },
		power: func(ctx context.Context, peer string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, bmcTime)
			defer cancel()
			return fence.Power(ctx, peer)
		},
		replaced: replacedHere,
		off:      switchOff, boot: observe.Boot,
		confirm: records.Files{}.WriteConfirmation, audit: records.Files{}.AppendConfirmation, tellPacemaker: pacemaker.ConfirmDown, now: time.Now, sleep: host.Sleep,
	}
}

// replacedHere returns what the agent of this host wrote down about its place. If that is nothing
// yet, it asks what the agent asks: the host may just have got its network. What cannot be asked
// forbids nothing: the administrator is asked for a reason.
func replacedHere(ctx context.Context) string {
	if why, err := replacement.ThisStore().Ousted(); err != nil || why != "" {
		return why
	}
	name, err := host.Name()
	if err != nil {
		return ""
	}
	s, _, _ := ownSite("/") // the key of join secrets does not matter here
	if s == nil {
		return ""
	}
	return replace.Ousted(ownplace.Look(ctx, s, name, false))
}

// recordedHost returns a host that consists of a recorded snapshot only: enough
// for a dry run.
func recordedHost(path string) (quorumHost, error) {
	in, err := explain.Snapshot(path)
	if err != nil {
		return quorumHost{}, err
	}
	power := in.Report.Snapshot.Proofs.Power
	return quorumHost{
		report: func(context.Context) (state.EtcdReport, error) { return in.Report, nil },
		power: func(context.Context, string) (string, error) {
			if !power.Known {
				return "", errors.New("not part of the snapshot")
			}
			return power.Value, nil
		},
	}, nil
}

// switchOff cuts the power of a host as Pacemaker's fencing would. It uses the
// same agent, which checks whose BMC it is, reads the state back, and leaves
// its evidence.
func switchOff(ctx context.Context, peer string) error {
	var errs bytes.Buffer
	code := fence.Run(ctx, Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}, []string{"--action=off", "--plug=" + peer})
	if code == 0 {
		return nil
	}
	return errors.New(strings.TrimPrefix(strings.TrimSpace(errs.String()), "fence_holdfast: "))
}
