package upgrade

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/upgrade/hostfiles"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// unitTime bounds the end of a unit that a release does not have: the host may be down meanwhile.
const unitTime = 30 * time.Second

// end ends a unit whose file is replaced, as far as it has to. One that does not end in time loses
// its file all the same: no boot starts it any more. systemd ends no other unit with it: what needed
// it by a former text runs on.
func (f Files) end(ctx context.Context, have, want hostfiles.File) (unended, err error) {
	stop, disable := hostfiles.Replaced(have, want)
	if stop {
		limited, cancel := context.WithTimeoutCause(ctx, unitTime, fmt.Errorf("no end after %s", unitTime))
		_, unended = f.Systemctl(limited, "stop", "--job-mode=ignore-requirements", "--", want.Unit())
		cancel()
		if host.ExitCode(unended) == notLoaded {
			unended = nil
		}
	}
	if disable {
		if _, err = f.Systemctl(ctx, "disable", "--quiet", "--no-reload", "--", want.Unit()); err == nil {
			err = f.syncLinks()
		}
	}
	return unended, err
}

// rise starts the units that a release has boots start, where boots do not start them yet. Their
// links come last: whoever is cut off before them does all of it again. Nobody waits for their
// start: one may be ordered after a daemon that is yet to start.
func (f Files) rise(ctx context.Context, list []hostfiles.File) error {
	var names []string
	var errs []error
	for _, want := range list {
		if want.Enabled == nil || !*want.Enabled || want.Unit() == "" {
			continue
		}
		if have, err := f.read(want.Path); err != nil || !have.Equal(want) {
			continue // its file could not be written, and somebody was told
		}
		is, err := f.enabled(ctx, want.Unit())
		errs = append(errs, err) // the other units start all the same
		if err == nil && !*is {
			names = append(names, want.Unit())
		}
	}
	if len(names) == 0 {
		return errors.Join(errs...)
	}
	orders := [][]string{{"daemon-reload"}, append([]string{"start", "--no-block", "--"}, names...)}
	for _, name := range names { // systemd enables none of those in one order if one of them fails
		orders = append(orders, []string{"enable", "--quiet", "--no-reload", "--", name})
	}
	for _, args := range orders {
		_, err := f.Systemctl(ctx, args...)
		errs = append(errs, err)
	}
	return errors.Join(append(errs, f.syncLinks())...)
}

// enabled reports whether each boot starts a unit, nil with an error.
func (f Files) enabled(ctx context.Context, name string) (*bool, error) {
	out, err := f.Systemctl(ctx, "is-enabled", "--", name) // it fails where it is not, and has printed the word
	word := strings.TrimSpace(string(out))
	if word == "" {
		return nil, fmt.Errorf("ask systemd whether boots start %s: %w", name, cmp.Or(err, errors.New("no answer")))
	}
	return new(strings.HasPrefix(word, "enabled")), nil
}

// leftOff names the units that somebody had disabled when the host left a release.
type leftOff struct {
	Release string   `json:"release"`
	Units   []string `json:"units"`
}

// noteOff keeps which units somebody has disabled, for a way back that begins once the lists of this one
// are gone. It does so before the host leaves: what the file says from then on is of another way.
func (f Files) noteOff(from string, list []hostfiles.File) error {
	current, err := f.Current()
	if err != nil || current != from { // a way back: the host has another release's units
		return err
	}
	path, off := filepath.Join(f.Root, Folder, offFile), hostfiles.Off(list)
	if len(off) == 0 {
		return f.Remove(path)
	}
	data, err := json.Marshal(leftOff{from, off})
	if err != nil {
		return err
	}
	return f.WriteFile(path, data, state.SecretFileMode)
}

// offWith returns the paths of the units that somebody had disabled when the host left a release, none
// where nothing says so. A file that cannot be read holds up no return.
func (f Files) offWith(digest string) []string {
	var left leftOff
	data, err := os.ReadFile(filepath.Join(f.Root, Folder, offFile))
	if err != nil || json.Unmarshal(data, &left) != nil || left.Release != digest {
		return nil
	}
	return left.Units
}

// left returns the release that the host has left on its way to another one, empty while it is on no
// such way.
func (m machine) left() (string, error) {
	j, _, err := m.store.Read()
	if err != nil || !j.Step.Trying() && j.Step != parachute.Accepted {
		return "", err
	}
	return j.From, nil
}

// syncLinks makes durable which units boots start.
func (f Files) syncLinks() error {
	dir := filepath.Join(f.Root, unit.UnitDir)
	folders := []string{dir}
	for _, links := range []string{"*.wants", "*.requires"} {
		found, err := filepath.Glob(filepath.Join(dir, links))
		if err != nil {
			return err
		}
		folders = append(folders, found...)
	}
	var errs []error
	for _, folder := range folders {
		errs = append(errs, host.SyncDir(folder))
	}
	return errors.Join(errs...)
}
