// Package installer makes the files from which a site is installed, in one
// directory that the administrator keeps: manifests, Ignition per role,
// kubeconfig. It is resumable: it uses again what a directory already holds,
// above all keys. The same directory gives the same bytes, until the join
// secret or the administrator's certificate in them has to be renewed.
package installer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/decide/restore"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// File names in the install directory.
const (
	ConfigFile   = "install-config.yaml"
	StateFile    = ".holdfast_state.json"
	MetadataFile = "metadata.json"
	Kubeconfig   = "auth/kubeconfig"
)

// stateVersion is the format of StateFile.
const stateVersion = 1

// Installer makes the files of one directory.
type Installer struct {
	// Dir is the install directory.
	Dir string
	// Now and Random are used when a directory gets its keys. Now also tells
	// whether the join secret is still valid.
	Now    func() time.Time
	Random io.Reader
	// Architecture is that of the programs for the hosts: the release is built
	// together with the installer. If it is empty, it is not compared.
	Architecture string
	// Warn reports what is allowed but seldom wise, one sentence each. It may be
	// nil.
	Warn func(string)
}

// saved is the content of StateFile.
type saved struct {
	Version int `json:"version"`
	// Config is the install-config from which the directory was made. It is stored
	// because the administrator may remove the file.
	Config   string        `json:"config"`
	Identity site.Identity `json:"identity"`
	// Manifests holds the SHA-256 of each manifest that was written, to detect
	// later changes by the administrator.
	Manifests map[string]string `json:"manifests,omitempty"`
	// Restore is the backup with which the site begins; see site.Site.Restore.
	Restore *site.Restore `json:"restore,omitempty"`
	// Life is the one that the restore begins; see site.Site.Life.
	Life state.Life `json:"life,omitzero"`
}

// InputError reports a mistake in a file that the administrator wrote. Nothing
// was changed.
type InputError struct{ Err error }

func (e *InputError) Error() string { return e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// Made returns the site for which the directory's files were made, whatever the
// install-config says by now. It creates and changes nothing.
func (in *Installer) Made() (*site.Site, error) {
	st, err := in.readState()
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, &InputError{fmt.Errorf("nothing was made in %s yet: run 'holdfast create ignition-configs --dir %[1]s' first, "+
			"or name the directory where you did", in.Dir)}
	}
	cfg, err := config.Made([]byte(st.Config))
	if err != nil {
		return nil, errUnreadableState(err)
	}
	return &site.Site{Config: cfg, Identity: st.Identity, Restore: st.Restore, Life: st.Life}, nil
}

func errUnreadableState(err error) error {
	return fmt.Errorf("%s contains a configuration that cannot be read: %w", StateFile, err)
}

// open returns the site of the directory, its state and its manifests. It saves the
// state after everything that may refuse the configuration. The first call for a
// directory generates its keys.
func (in *Installer) open() (s *site.Site, st *saved, set manifestSet, err error) {
	s, st, changed, err := in.parse()
	if err != nil {
		return nil, nil, set, err
	}
	if set, err = in.mergeManifests(s, st); err != nil {
		return nil, nil, set, err
	}
	if changed {
		err = in.writeState(st)
	}
	return s, st, set, err
}

// parse returns the site of the directory and its state, and whether the state differs
// from the saved one.
func (in *Installer) parse() (s *site.Site, st *saved, changed bool, err error) {
	old, err := in.readState()
	if err != nil {
		return nil, nil, false, err
	}
	data, err := in.readConfig(old)
	if err != nil {
		return nil, nil, false, err
	}
	cfg, err := config.Parse(data)
	if err != nil {
		return nil, nil, false, &InputError{fmt.Errorf("%s: %w", filepath.Join(in.Dir, ConfigFile), err)}
	}
	if err := in.builtFor(cfg); err != nil {
		return nil, nil, false, &InputError{fmt.Errorf("%s: %w", filepath.Join(in.Dir, ConfigFile), err)}
	}
	in.warnings(cfg)
	st, changed, err = in.update(old, cfg, string(data))
	if err != nil {
		return nil, nil, false, err
	}
	return &site.Site{Config: cfg, Identity: st.Identity, Restore: st.Restore, Life: st.Life}, st, changed, nil
}

// builtFor refuses hosts that cannot run the release's programs.
func (in *Installer) builtFor(cfg *config.InstallConfig) error {
	want := cfg.ControlPlane.Architecture // the same for all pools
	if want == "" || in.Architecture == "" || want == in.Architecture {
		return nil
	}
	return field.Invalid(field.NewPath("controlPlane", "architecture"), want, fmt.Sprintf(
		"this Holdfast and its release are for %s: use those that were built for %s, or leave the field out where hosts are given such a release",
		in.Architecture, want))
}

// readConfig reads the install-config or, if the administrator removed it, the
// one from which the directory was made.
func (in *Installer) readConfig(old *saved) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(in.Dir, ConfigFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	if old == nil {
		return nil, &InputError{fmt.Errorf("no %s in %s: write one first (see docs/install-config.md)", ConfigFile, in.Dir)}
	}
	return []byte(old.Config), nil
}

// warnings reports settings of a valid configuration that are unwise, a quota
// that the data of a backup exceed, and a file of secrets that others can read.
func (in *Installer) warnings(cfg *config.InstallConfig) {
	for _, w := range config.Warnings(cfg) {
		in.warn("%s", w)
	}
	if info, err := os.Stat(filepath.Join(in.Dir, SnapshotFile)); err == nil && info.Size() > cfg.EtcdQuota().Bytes() {
		in.warn("etcdQuotaGiB: the backup's database has %d MiB, and etcd's quota is %d GiB: unless the restore leaves enough out, etcd takes no writes; set etcdQuotaGiB higher now, since it cannot be changed later",
			info.Size()>>20, cfg.EtcdQuota())
	}
	path := filepath.Join(in.Dir, ConfigFile)
	if info, err := os.Stat(path); err == nil && config.HoldsSecrets(cfg) && info.Mode().Perm()&0o077 != 0 {
		in.warn("%s holds passwords and others can read it (mode %04o): run 'chmod 600 %[1]s'", path, info.Mode().Perm())
	}
}

func (in *Installer) warn(format string, args ...any) {
	if in.Warn != nil {
		in.Warn(fmt.Sprintf(format, args...))
	}
}

// update returns the state for the configuration, and whether it has changed.
func (in *Installer) update(old *saved, cfg *config.InstallConfig, text string) (st *saved, changed bool, err error) {
	if old == nil {
		if host.Exists(filepath.Join(in.Dir, SnapshotFile)) {
			return nil, false, &InputError{fmt.Errorf("a restore was begun in %s and did not end, so the keys of the site are not there: empty the directory and run 'holdfast restore' again", in.Dir)}
		}
		made, err := keys.Generate(in.Now(), in.Random)
		return &saved{Version: stateVersion, Config: text, Identity: made}, true, err
	}
	if err := in.sameCluster(old, cfg); err != nil {
		return nil, false, err
	}
	changed = old.Config != text
	old.Config = text
	return old, changed, nil
}

// sameCluster refuses to use one cluster's keys for another, and other service networks for the
// Services of a backup. The first configuration of a restored site is that of the backup, so the one
// before always has the networks of the backup.
func (in *Installer) sameCluster(old *saved, cfg *config.InstallConfig) error {
	before, err := config.Made([]byte(old.Config))
	if err != nil {
		return errUnreadableState(err)
	}
	if before.ClusterDomain() != cfg.ClusterDomain() {
		return &InputError{fmt.Errorf("this directory belongs to cluster %s and %s now names %s: use an empty directory",
			before.ClusterDomain(), ConfigFile, cfg.ClusterDomain())}
	}
	services := cfg.Networking.ServiceNetwork
	if former := before.Networking.ServiceNetwork; old.Restore != nil && !restore.KeepsServices(former, services) {
		return &InputError{fmt.Errorf("%s: %w", filepath.Join(in.Dir, ConfigFile), field.Invalid(field.NewPath("networking", "serviceNetwork"), services,
			fmt.Sprintf("the Services of the backup have addresses of %s, and would not be served: write these networks first", strings.Join(former, ", "))))}
	}
	return nil
}

func (in *Installer) readState() (*saved, error) {
	path := filepath.Join(in.Dir, StateFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a new directory is no error
	}
	if err != nil {
		return nil, err
	}
	var s saved
	if err := json.Unmarshal(data, &s); err != nil || s.Version != stateVersion {
		return nil, fmt.Errorf("%s is damaged or of another version: restore it, or start again in an empty directory "+
			"(a running cluster's keys are on its control planes in %s)", path, site.Path)
	}
	return &s, nil
}

func (in *Installer) writeState(s *saved) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return host.WriteFileAtomic(filepath.Join(in.Dir, StateFile), append(data, '\n'), state.SecretFileMode)
}

// joinReserve is the life that the join secret of a new pointer must at least
// have left.
const joinReserve = 6 * time.Hour

// renewJoinSecret sets a new end for the join secret if the old end is near or
// past, so that a site prepared last week can still be installed.
func (in *Installer) renewJoinSecret(s *site.Site, st *saved) error {
	now := in.Now()
	if now.Add(joinReserve).Before(s.Identity.JoinExpiry()) {
		return nil
	}
	st.Identity.JoinUntil = now.Add(site.JoinLifetime).UTC().Truncate(time.Second)
	s.Identity = st.Identity
	return in.writeState(st)
}
