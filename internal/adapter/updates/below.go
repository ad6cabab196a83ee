package updates

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/updates"
)

// These files tell which packages a host has, and what may change them.
const (
	dpkgStatus   = "/var/lib/dpkg/status"
	aptMain      = "/etc/apt/apt.conf"
	aptParts     = "/etc/apt/apt.conf.d"
	dnfMain      = "/etc/dnf/dnf.conf"
	dnfAutomatic = "/etc/dnf/automatic.conf"
	dnfLocks     = "/etc/dnf/plugins/versionlock.list"
	dnfInstalls  = "/etc/systemd/system/timers.target.wants/dnf-automatic-install.timer"
)

// rpmDatabases are the places of rpm's list of packages, which is no text. Those of
// versions before 4.16 and of Fedora are beside that of RHEL.
var rpmDatabases = []string{
	"/var/lib/rpm/rpmdb.sqlite", "/var/lib/rpm/rpmdb.sqlite-wal", "/var/lib/rpm/Packages", "/usr/lib/sysimage/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/rpmdb.sqlite-wal",
}

// rpmTime bounds rpm's answer.
const rpmTime = 20 * time.Second

var errNoPackages = errors.New("this host has neither dpkg's nor rpm's list of packages")

// Below tells what etcd runs on, on one of two control planes.
type Below struct {
	// Root is the folder of the host's files, and Ours the path of Holdfast's own file
	// about automatic updates.
	Root, Ours string
	Run        runner

	key  string
	last updates.Stack
}

// Read reads files anew, and asks rpm, only after one of them has changed.
func (b *Below) Read(ctx context.Context) (updates.Stack, error) {
	key := b.state()
	if key != "" && key == b.key {
		return b.last, nil
	}
	read, err := b.read(ctx)
	if err != nil {
		return updates.Stack{}, err
	}
	b.key, b.last = key, read
	return read, nil
}

func (b *Below) at(path string) string { return filepath.Join(b.Root, path) }

// state is another one whenever a file was written.
func (b *Below) state() string {
	var out strings.Builder
	for _, path := range slices.Concat([]string{dpkgStatus, dnfMain, dnfAutomatic, dnfLocks, dnfInstalls}, rpmDatabases, b.apt()) {
		if info, err := os.Stat(b.at(path)); err == nil {
			fmt.Fprintln(&out, path, info.Size(), info.ModTime().UnixNano())
		}
	}
	return out.String()
}

// apt names the files with apt's settings.
func (b *Below) apt() []string {
	out := []string{aptMain}
	list, err := os.ReadDir(b.at(aptParts))
	if err != nil {
		return out
	}
	for _, e := range list {
		out = append(out, aptParts+"/"+e.Name())
	}
	return out
}

func (b *Below) read(ctx context.Context) (updates.Stack, error) {
	switch {
	case host.Exists(b.at(dpkgStatus)):
		return b.ofApt()
	case slices.ContainsFunc(rpmDatabases, func(path string) bool { return host.Exists(b.at(path)) }):
		return b.ofDnf(ctx)
	}
	return updates.Stack{}, errNoPackages
}

// file reads a file. One that is not there is empty.
func (b *Below) file(path string, failed *error) []byte {
	data, err := os.ReadFile(b.at(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		*failed = errors.Join(*failed, fmt.Errorf("read what may change packages: %w", err))
	}
	return data
}

func (b *Below) ofApt() (updates.Stack, error) {
	var err error
	a := updates.AptHost{Status: b.file(dpkgStatus, &err), Ours: b.file(b.Ours, &err)}
	for _, path := range b.apt() {
		if path != b.Ours {
			a.Settings = append(a.Settings, b.file(path, &err))
		}
	}
	return a.Stack(), err
}

func (b *Below) ofDnf(ctx context.Context) (updates.Stack, error) {
	packages, err := b.Run.within(ctx, rpmTime, host.Command("rpm", "--query", "--all", `--queryformat=%{NAME}=%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n`))
	if err != nil {
		return updates.Stack{}, fmt.Errorf("ask rpm for the packages: %w", err)
	}
	d := updates.DnfHost{
		Packages: packages, Automatic: b.file(dnfAutomatic, &err), Installs: host.Exists(b.at(dnfInstalls)), Main: b.file(dnfMain, &err), Locks: b.file(dnfLocks, &err),
	}
	return d.Stack(), err
}

// BelowEtcd tells what etcd runs on on the running host. ours is the path of Holdfast's own
// file about automatic updates.
func BelowEtcd(ours string) *Below { return &Below{Root: "/", Ours: ours, Run: host.Run} }
