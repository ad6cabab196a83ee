package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/cli/command"
	decidegrow "github.com/holdfast/holdfast/internal/decide/grow"
	"github.com/holdfast/holdfast/internal/install/grow"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	renderhost "github.com/holdfast/holdfast/internal/render/host"
)

// The acts of PairUnit.
const (
	pairEquip   = "equip"
	pairDress   = "dress"
	pairUndress = "undress"
	pairStrip   = "strip"
)

// pairActs do to this host what the plan for two control planes needs. target is the site of
// two. Each may be cut off and run again.
var pairActs = map[string]func(ctx context.Context, h *grow.Host, target *site.Site) error{
	pairEquip: func(ctx context.Context, h *grow.Host, target *site.Site) error { return h.Equip(ctx, target) },
	pairDress: func(ctx context.Context, h *grow.Host, target *site.Site) error { return h.Prepare(ctx, target) },
	pairUndress: func(ctx context.Context, h *grow.Host, target *site.Site) error {
		three, err := decidegrow.ThreeOf(target)
		if err != nil {
			return err
		}
		return h.Undress(ctx, three)
	},
	pairStrip: func(ctx context.Context, h *grow.Host, target *site.Site) error {
		three, err := decidegrow.ThreeOf(target)
		if err != nil {
			return err
		}
		return h.Strip(ctx, target, three)
	},
}

func newPair(command.Streams) *cobra.Command {
	acts := slices.Sorted(maps.Keys(pairActs))
	return &cobra.Command{
		Use:    "pair ACT",
		Hidden: true, // nobody types it
		Short:  "Do one act by which this host of three becomes one of two control planes",
		Long: `Do one act of the plan by which three control planes become two (docs/adr/0102):
` + strings.Join(acts, ", ") + `. holdfast-agent starts it as ` + renderhost.PairUnit + `, since it
may not do this itself.`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: acts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if os.Geteuid() != 0 {
				return &command.UsageError{Err: errors.New("pair changes this host: run it as root")}
			}
			t, err := replacement.ThisStore().NarrowTarget()
			if err != nil {
				return err
			}
			if t == nil {
				return fmt.Errorf("%s is missing: no plan makes this host one of two control planes", replacement.NarrowTargetPath)
			}
			return noted("/", func() error {
				return alone(cmd.Context(), "/", func() error { return pairActs[args[0]](cmd.Context(), grow.NewHost(), t.Site) })
			})
		},
	}
}

// pairLock is the file that an act locks: a plan that is taken back may want another one while the first one
// outlives the agent that started it.
const pairLock = "/run/holdfast/replace/pair.lock"

// pairWait is the pause between two attempts at the lock.
const pairWait = 200 * time.Millisecond

// alone does an act while no other one runs. It waits for that until ctx ends, as systemd ends an act that is
// late. The kernel drops the lock when the process ends. root is "/" except in tests.
func alone(ctx context.Context, root string, act func() error) (err error) {
	path := filepath.Join(root, pairLock)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, state.SecretFileMode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return act()
		case !errors.Is(err, unix.EWOULDBLOCK):
			return fmt.Errorf("lock %s: %w", path, err)
		}
		if err := host.Sleep(ctx, pairWait); err != nil {
			return fmt.Errorf("another act of the plan still runs on this host (systemctl list-units 'holdfast-pair@*'): %w", err)
		}
	}
}

// pairFailed is why the last act failed, for the agent, which reads no journal.
const pairFailed = "/run/holdfast/replace/pair-failed"

// noted does an act, and notes why it failed. root is "/" except in tests.
func noted(root string, act func() error) error {
	note, failed := filepath.Join(root, pairFailed), act()
	if failed == nil {
		return nil
	}
	return errors.Join(failed, os.MkdirAll(filepath.Dir(note), 0o700), host.WriteFileAtomic(note, []byte(failed.Error()), state.SecretFileMode))
}

// runner runs a command of the host.
type runner func(context.Context, host.Cmd) ([]byte, error)

// inPairUnit has an act done in a unit of its own. root is "/" except in tests.
func inPairUnit(ctx context.Context, run runner, root, act string) error {
	if _, err := host.WriteFiles(root, []state.File{renderhost.Pair()}); err != nil {
		return err
	}
	if _, err := run(ctx, host.Command("systemctl", "daemon-reload")); err != nil {
		return err
	}
	unit, note := renderhost.PairOf(act), filepath.Join(root, pairFailed)
	if err := os.Remove(note); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := run(ctx, host.Command("systemctl", "start", unit))
	if err == nil || ctx.Err() != nil {
		return err
	}
	// systemctl says only that it failed. What is wrong is in the note of the unit.
	said, unread := os.ReadFile(note)
	if unread != nil {
		return fmt.Errorf("%w; journalctl -u %s", err, unit)
	}
	return fmt.Errorf("%s (journalctl -u %s)", said, unit)
}
