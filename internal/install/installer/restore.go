package installer

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/keys"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/secret"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// SnapshotFile is the path of etcd's snapshot in the install directory of a restored site. The
// first host waits for the file at site.RestorePath.
const SnapshotFile = "restore/etcd.db"

// Backup has the parts of a backup that make a site.
type Backup struct {
	ID string
	// Taken is when it was taken; zero if the clock of its host was ahead.
	Taken time.Time
	// Site is site.json of the host that took the backup.
	Site []byte
	// Authorities are those that sign for the site.
	Authorities keys.Authorities
	// EncryptionKeys are the numbers of the keys that the API server had; empty if it
	// encrypted nothing.
	EncryptionKeys []int
	// Passwords are the BMC passwords in the backup, by the names of their hosts.
	Passwords map[string]secret.Text
	// Snapshot is the snapshot of etcd, and SHA256 its digest in hex.
	Snapshot io.Reader
	SHA256   string
	// Revision is the latest one in the snapshot.
	Revision int64
	// ControlPlanes are the addresses of the control planes in the snapshot, as far as they are
	// known.
	ControlPlanes []netip.Addr
}

// Restore makes an empty directory an install directory that begins with a backup: it writes
// install-config.yaml, which the administrator may change, the keys of the site, and the
// snapshot. It returns the fields of install-config.yaml for which the backup has no value: the
// administrator has to fill them in.
func (in *Installer) Restore(b Backup) (missing []string, err error) {
	release, err := in.lock()
	if err != nil {
		return nil, err
	}
	defer release()
	if err := in.unused(); err != nil {
		return nil, err
	}
	s, err := site.Unmarshal(b.Site)
	if err != nil {
		return nil, err
	}
	missing = giveBack(s.Config, b.Passwords)
	st := &saved{Version: stateVersion}
	if st.Identity, err = keys.Revive(s.Identity, b.Authorities, in.Now(), in.Random); err != nil {
		return nil, fmt.Errorf("the backup's keys: %w", err)
	}
	st.Identity.EncryptionKeys = b.EncryptionKeys
	if st.Restore, err = in.takeSnapshot(b); err != nil {
		return nil, err
	}
	st.Restore.Former = former(s, b.ControlPlanes)
	id, err := keys.Life(in.Random)
	if err != nil {
		return nil, err
	}
	st.Life = s.Life.Next(id, in.Now())
	text, err := config.Marshal(s.Config)
	if err != nil {
		return nil, err
	}
	st.Config = string(text)
	// the state comes last: with it the directory is one of this site
	if err := host.WriteFileAtomic(filepath.Join(in.Dir, ConfigFile), text, state.SecretFileMode); err != nil {
		return nil, err
	}
	return missing, in.writeState(st)
}

// former returns the addresses at which the site of the backup answers if one of its hosts is
// switched on. The administrator may change those of the restored site.
func former(s *site.Site, controlPlanes []netip.Addr) []netip.Addr {
	out := slices.Concat(s.Config.APIVIPs(), controlPlanes)
	if a, named := s.RendezvousIP(); named {
		out = append(out, a)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// unused returns an error if the directory is one of a site already.
func (in *Installer) unused() error {
	for _, name := range []string{StateFile, ConfigFile} {
		if host.Exists(filepath.Join(in.Dir, name)) {
			return &InputError{fmt.Errorf("%s has %s already: a restore begins in an empty directory", in.Dir, name)}
		}
	}
	return nil
}

// takeSnapshot writes the snapshot into the directory.
func (in *Installer) takeSnapshot(b Backup) (*site.Restore, error) {
	path := filepath.Join(in.Dir, SnapshotFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	sum := sha256.New()
	err := host.WriteAtomic(path, state.SecretFileMode, func(w io.Writer) error {
		_, err := io.Copy(io.MultiWriter(w, sum), b.Snapshot)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("take the snapshot out of the backup: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != b.SHA256 {
		return nil, fmt.Errorf("take the snapshot out of the backup: its SHA-256 is %s, want %s", got, b.SHA256)
	}
	token, err := keys.Life(in.Random)
	if err != nil {
		return nil, err
	}
	return &site.Restore{SHA256: b.SHA256, Token: token, Backup: b.ID, Taken: b.Taken, Revision: b.Revision}, nil
}

// giveBack sets the BMC passwords in a configuration, since the copies of hosts have
// none. It returns the fields that stay empty.
func giveBack(c *config.InstallConfig, passwords map[string]secret.Text) (missing []string) {
	give := func(field, host string, to *secret.Text) {
		if *to != secret.Redacted && *to != "" {
			return
		}
		*to = passwords[host]
		if *to == "" {
			missing = append(missing, field)
		}
	}
	if f := c.ControlPlane.Fencing; f != nil {
		f.Credentials = slices.Clone(f.Credentials)
		for i := range f.Credentials {
			give(fmt.Sprintf("controlPlane.fencing.credentials[%d].password", i), f.Credentials[i].HostName, &f.Credentials[i].Password)
		}
	}
	if p := c.Platform.BareMetal; p != nil {
		p.Hosts = slices.Clone(p.Hosts)
		for i := range p.Hosts {
			give(fmt.Sprintf("platform.baremetal.hosts[%d].bmc.password", i), p.Hosts[i].Name, &p.Hosts[i].BMC.Password)
		}
	}
	return missing
}
