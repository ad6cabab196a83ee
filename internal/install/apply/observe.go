package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast/holdfast/internal/install/plan"
)

// Observe examines the parts of the host that a configuration asks for.
func (h *Host) Observe(ctx context.Context, d plan.Desired) (plan.Observed, error) {
	o := plan.Observed{Live: h.Live, Nodes: map[string]plan.Node{}}
	var err error
	if o.Users, o.Groups, err = h.accounts(); err != nil {
		return o, fmt.Errorf("read accounts: %w", err)
	}
	for _, p := range d.Paths(o.Users) {
		if o.Nodes[p], err = h.node(p); err != nil {
			return o, fmt.Errorf("read %s: %w", p, err)
		}
	}
	if o.Units, err = h.unitStates(ctx, d.UnitNames()); err != nil {
		return o, fmt.Errorf("read units: %w", err)
	}
	if o.Packages, err = h.packageState(ctx, d.Packages); err != nil {
		return o, fmt.Errorf("read packages: %w", err)
	}
	o.Journal, err = h.readJournal()
	return o, err
}

func (h *Host) node(path string) (plan.Node, error) {
	place, err := h.at(path)
	if err != nil {
		return plan.Node{}, err
	}
	info, err := os.Lstat(place)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return plan.Node{Blocked: h.blocker(path)}, nil
	case errors.Is(err, fs.ErrNotExist):
		return plan.Node{Leftovers: h.leftovers(path, place)}, nil
	case err != nil:
		return plan.Node{}, err
	}
	n := plan.Node{Mode: info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)}
	n.UID, n.GID = h.Owner(info)
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		n.Identity = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
	}
	switch {
	case info.Mode().IsRegular():
		n.Kind = plan.KindFile
		n.Leftovers = h.leftovers(path, place)
		n.Data, err = os.ReadFile(place)
	case info.IsDir():
		n.Kind = plan.KindDirectory
	case info.Mode()&fs.ModeSymlink != 0:
		n.Kind = plan.KindLink
		n.Target, err = os.Readlink(place)
	default:
		n.Kind = plan.KindOther
	}
	return n, err
}

// blocker returns the nearest parent of a path that exists.
func (h *Host) blocker(path string) string {
	for dir := filepath.Dir(path); dir != "/"; dir = filepath.Dir(dir) {
		place, err := h.at(dir)
		if err != nil {
			return dir
		}
		if _, err := os.Lstat(place); err == nil {
			return dir
		}
	}
	return "/"
}

// leftovers returns the temporary files that a killed host.WriteFileAtomic
// left beside a file, as paths of the host.
func (h *Host) leftovers(path, place string) []string {
	entries, err := os.ReadDir(filepath.Dir(place))
	if err != nil {
		return nil // no directory, so no leftovers
	}
	var found []string
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name(), "."+filepath.Base(path)+".")
		if ok && rest != "" && strings.Trim(rest, "0123456789") == "" {
			found = append(found, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return found
}

func (h *Host) unitStates(ctx context.Context, names []string) (map[string]plan.UnitState, error) {
	states := map[string]plan.UnitState{}
	for _, name := range names {
		// The exit code only repeats the printed word.
		out, err := h.Run(ctx, h.systemctl("is-enabled", "--", name))
		if ctx.Err() != nil {
			return nil, err
		}
		states[name] = plan.UnitState{Enabled: firstWord(out)}
	}
	if !h.Live {
		return states, nil
	}
	return states, h.showUnits(ctx, names, states)
}

func firstWord(out []byte) string {
	words := strings.Fields(string(out))
	if len(words) == 0 {
		return "not-found"
	}
	return words[0]
}

// showUnits adds the states from the running systemd, which has none for
// templates.
func (h *Host) showUnits(ctx context.Context, names []string, states map[string]plan.UnitState) error {
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return strings.Contains(n, "@.") })
	if len(names) == 0 {
		return nil
	}
	args := []string{"show", "--property=ActiveState,Type,ConditionResult,ConditionTimestampMonotonic,NeedDaemonReload", "--"}
	out, err := h.Run(ctx, h.systemctl(append(args, names...)...))
	if err != nil {
		return err
	}
	blocks := strings.Split(strings.TrimSpace(string(out)), "\n\n")
	if len(blocks) != len(names) {
		return fmt.Errorf("systemctl show answered for %d of %d units", len(blocks), len(names))
	}
	for i, block := range blocks {
		p := properties(block)
		s := states[names[i]]
		s.Active, s.Type = p["ActiveState"], p["Type"]
		s.Stale = p["NeedDaemonReload"] == "yes"
		s.Skipped = p["ConditionResult"] == "no" && p["ConditionTimestampMonotonic"] != "0"
		states[names[i]] = s
	}
	return nil
}

func properties(block string) map[string]string {
	p := map[string]string{}
	for line := range strings.Lines(block) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		p[key] = value
	}
	return p
}
