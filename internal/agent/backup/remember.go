package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/backup"
)

// Folder has the files in which a host remembers its backups, apart from their catalogue.
const (
	Folder      = "/var/lib/holdfast/backup"
	journalName = "journal.json"
	wishName    = "wish.json" // with credentials
)

// ThisStore returns the store of this host.
func ThisStore() Store {
	return Store{
		Read: func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(Folder, name)) },
		Write: func(name string, data []byte) error {
			return host.WriteFileAtomic(filepath.Join(Folder, name), data, 0o600)
		},
	}
}

// load reads the journal and the wish, once. If the journal is damaged it counts as empty,
// and the next backup comes early.
func (a *Agent) load() error {
	if a.loaded {
		return nil
	}
	if _, err := a.decode(journalName, &a.journal); err != nil {
		return err
	}
	if err := a.loadWish(); err != nil {
		return err
	}
	if a.journal.Since.IsZero() || a.journal.Since.After(a.Now()) {
		j := a.journal
		j.Since = a.Now()
		if err := a.remember(j); err != nil {
			return err
		}
	}
	a.loaded = true
	return nil
}

// loadWish reads the wish. If another release allowed it and this one refuses it, or if it is
// damaged or gone, backups are taken as the default wish has it, and none is removed until the API has a
// wish without mistakes: nobody knows how many the site keeps, and at which targets their copies
// are. A site without a wish has a file, too, once the API has said so.
func (a *Agent) loadWish() error {
	unknown, err := a.decode(wishName, &a.inputs)
	if err != nil {
		return err
	}
	wish, mistakes := decide.ReadWish(a.inputs, a.Site, a.Zones)
	if a.held = unknown || len(mistakes) > 0; a.held {
		a.refused, wish = mistakes, decide.DefaultWish(a.Site)
	}
	a.wish = wish
	return nil
}

// decode reads a file of the store. It reports whether the file says nothing: it is not there, or is
// damaged.
func (a *Agent) decode(name string, out any) (unknown bool, _ error) {
	text, err := a.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("read what this host remembers of its backups: %w", err)
	}
	return json.Unmarshal(text, out) != nil, nil
}

// remember writes the journal to the disk, and only then takes it over.
func (a *Agent) remember(j decide.Journal) error {
	text, err := json.Marshal(j)
	if err != nil {
		return err
	}
	if err := a.Write(journalName, text); err != nil {
		return fmt.Errorf("remember how far backups are: %w", err)
	}
	a.journal = j
	return nil
}

// aim remembers since when each target is configured. A wish that is not known says nothing of targets.
func (a *Agent) aim() error {
	j := a.journal.Aim(a.wish.TargetNames(), a.Now().UTC().Round(0))
	if a.held || maps.EqualFunc(j.Aimed, a.journal.Aimed, time.Time.Equal) {
		return nil
	}
	return a.remember(j)
}

// ask reads the wish of the site. If that has mistakes, or an object of it is gone, that is
// reported, and the last wish without mistakes is followed.
func (a *Agent) ask(ctx context.Context) error {
	a.mu.Lock()
	anew := a.anew
	a.anew = false
	a.mu.Unlock()
	if age := a.Now().Sub(a.asked); !anew && !a.asked.IsZero() && age >= 0 && age < askEvery {
		return nil
	}
	a.asked = a.Now() // an API that is away is asked no more often
	in, err := a.inputsOfSite(ctx)
	if err != nil {
		if anew {
			a.unread = err.Error()
		}
		return fmt.Errorf("read what the site wants of backups: %w", err)
	}
	a.unread = ""
	in, gone := in.After(a.inputs)
	wish, mistakes := decide.ReadWish(in, a.Site, a.Zones)
	if a.refused = append(gone, mistakes...); len(mistakes) > 0 || !a.held && reflect.DeepEqual(in, a.inputs) {
		return nil
	}
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if err := a.Write(wishName, text); err != nil {
		return fmt.Errorf("remember what the site wants of backups: %w", err)
	}
	a.inputs, a.wish, a.held, a.lasts = in, wish, false, period{}
	return nil
}

func (a *Agent) inputsOfSite(ctx context.Context) (in decide.Inputs, err error) {
	api, err := a.Open()
	if err != nil {
		return in, err
	}
	object, err := api.Backup(ctx, decide.ObjectName)
	if err != nil {
		return in, err
	}
	if object != nil {
		in.Spec = &object.Spec.EtcdBackupSpec
	}
	data, err := api.Secret(ctx, decide.SecretNamespace, decide.SecretName)
	in.Config = string(data[decide.SecretKey])
	return in, err
}
