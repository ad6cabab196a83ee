package hostconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/hostapply"
	"github.com/holdfast/holdfast/internal/install/apply"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// machine is a host in a folder. Its files are real, systemd and the boot loader's
// tools are fakes, and a test can cut a run at any effect.
type machine struct {
	root     string
	enabled  map[string]bool
	owners   map[string][2]int
	loader   string // what the boot loader's tool was last told, by what lies on the disk
	broken   map[string]error
	commands []string

	powercut.Cut
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{root: t.TempDir(), enabled: map[string]bool{"old.service": true}, owners: map[string][2]int{}, broken: map[string]error{}}
	for path, data := range map[string]string{
		"/etc/passwd": "root:x:0:0:root:/root:/bin/bash\ncore:x:1000:1000::/home/core:/bin/bash\nchrony:x:77:78::/:/bin/false\n",
		"/etc/group":  "root:x:0:\ncore:x:1000:\nchrony:x:78:\n", "/etc/shadow": "root:*:1::::::\n",
		"/etc/motd": "of the distribution\n", "/home/core/.ssh/authorized_keys": "ssh-ed25519 AAAA own\n",
		"/etc/default/grub": "GRUB_CMDLINE_LINUX=\"quiet\"\n", "/usr/sbin/update-grub": "", "/etc/default/grub.d/50-dist.cfg": "",
		"/usr/lib/systemd/system/old.service":    "[Service]\n",
		"/usr/lib/systemd/system/vendor.service": "[Service]\n", "/var/lib/holdfast/x": "",
	} {
		m.put(t, path, data, 0o644)
	}
	for _, dir := range []string{"/etc/systemd/system", "/etc/sysctl.d", "/opt"} {
		if err := os.MkdirAll(filepath.Join(m.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]fs.FileMode{"/home/core": 0o700, "/home/core/.ssh": 0o700, "/home/core/.ssh/authorized_keys": 0o600} {
		full := filepath.Join(m.root, path)
		if err := os.Chmod(full, mode); err != nil {
			t.Fatal(err)
		}
		m.owners[inode(full)] = [2]int{1000, 1000}
	}
	if err := os.Symlink("nowhere", filepath.Join(m.root, "/etc/link.conf")); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) put(t *testing.T, path, data string, mode fs.FileMode) {
	t.Helper()
	if err := powercut.WriteFile(filepath.Join(m.root, path), []byte(data), mode); err != nil {
		t.Fatal(err)
	}
}

func (m *machine) read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(m.root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (m *machine) writer() Writer {
	w := NewWriter(m.root)
	real := *w.Files
	write := func(path string, data []byte, mode fs.FileMode) error {
		return m.Effect(func() error { return powercut.WriteFile(path, data, mode) })
	}
	w.Files.WriteFile, w.Store.WriteFile = write, write
	w.Files.WriteFor = func(path string, data []byte, mode fs.FileMode, uid, gid int) error {
		return m.Effect(func() error {
			if err := powercut.WriteFile(path, data, mode); err != nil {
				return err
			}
			m.owners[inode(path)] = [2]int{uid, gid}
			return nil
		})
	}
	w.Files.Mkdir = func(p string, mode fs.FileMode) error { return m.Effect(func() error { return real.Mkdir(p, mode) }) }
	w.Files.Chmod = func(p string, mode fs.FileMode) error { return m.Effect(func() error { return real.Chmod(p, mode) }) }
	w.Files.Remove = func(p string) error { return m.Effect(func() error { return os.RemoveAll(p) }) }
	w.Files.Symlink = func(target, p string) error { return m.Effect(func() error { return real.Symlink(target, p) }) }
	w.Files.Chown = func(p string, uid, gid int) error {
		return m.Effect(func() error { m.owners[inode(p)] = [2]int{uid, gid}; return nil })
	}
	w.Files.Owner = func(info fs.FileInfo) (int, int) {
		o := m.owners[inodeOf(info)]
		return o[0], o[1]
	}
	w.Files.Run = func(_ context.Context, c host.Cmd) ([]byte, error) { return m.run(c) }
	return w
}

func inode(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		panic(err)
	}
	return inodeOf(info)
}

func inodeOf(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		panic("no inode")
	}
	if info.IsDir() {
		return fmt.Sprint(st.Ino)
	}
	return fmt.Sprint(st.Ino, st.Ctim) // the number of a file is used again
}

func (m *machine) run(c host.Cmd) ([]byte, error) {
	args := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool { return strings.HasPrefix(a, "--root") })
	m.commands = append(m.commands, strings.Join(append([]string{c.Name}, args...), " "))
	if err := m.broken[c.Name]; err != nil {
		return nil, &host.RunError{Cmd: c, ExitCode: 1, Err: err}
	}
	switch {
	case c.Name == "update-grub":
		return nil, m.Effect(func() error {
			data, err := os.ReadFile(filepath.Join(m.root, grubPath))
			m.loader = string(data)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		})
	case c.Name == "grubby":
		return m.grubby(args)
	case c.Name != "systemctl":
		panic("no fake for " + c.String())
	}
	unit := args[len(args)-1]
	if args[0] == "is-enabled" {
		return []byte(m.word(unit) + "\n"), nil
	}
	return nil, m.Effect(func() error {
		switch args[0] {
		case "enable", "reenable":
			if m.word(unit) == "not-found" || m.word(unit) == "masked" {
				return &host.RunError{Cmd: c, ExitCode: 1, Err: errors.New("exit status 1"), Output: "Unit " + unit + " does not exist"}
			}
			m.enabled[unit] = true
		case "disable":
			delete(m.enabled, unit)
		default:
			panic(c.String())
		}
		return nil
	})
}

// grubby is grubby(8): --args gives an argument that is there another value, and
// --remove-args takes away one with that value, or with any if it names none.
func (m *machine) grubby(args []string) ([]byte, error) {
	if slices.Equal(args, []string{"--info=DEFAULT"}) {
		return fmt.Appendf(nil, "index=0\nkernel=\"/boot/vmlinuz-1\"\nargs=\"%s\"\nroot=\"/dev/sda1\"\n", m.loader), nil
	}
	return nil, m.Effect(func() error {
		have := strings.Fields(m.loader)
		for _, a := range args {
			what, list, _ := strings.Cut(a, "=")
			for one := range strings.FieldsSeq(list) {
				name, _, valued := strings.Cut(one, "=")
				same := func(o string) bool { return argumentName(o) == name }
				switch i := slices.IndexFunc(have, same); {
				case what == "--remove-args" && valued:
					have = slices.DeleteFunc(have, func(o string) bool { return o == one })
				case what == "--remove-args":
					have = slices.DeleteFunc(have, same)
				case what == "--args" && i >= 0:
					rest := slices.DeleteFunc(slices.Clone(have[i+1:]), same)
					have = append(append(have[:i:i], one), rest...)
				case what == "--args":
					have = append(have, one)
				}
			}
		}
		m.loader = strings.Join(have, " ")
		return nil
	})
}

// word is what `systemctl is-enabled` says.
func (m *machine) word(unit string) string {
	own := filepath.Join(m.root, unitPath(unit))
	target, err := os.Readlink(own)
	_, errOwn := os.Lstat(own)
	_, errVendor := os.Lstat(filepath.Join(m.root, "/usr/lib/systemd/system", unit))
	switch {
	case err == nil && target == "/dev/null":
		return "masked"
	case errOwn != nil && errVendor != nil:
		return "not-found"
	case m.enabled[unit]:
		return "enabled"
	default:
		return "disabled"
	}
}

// look returns everything on the machine but what the writer remembers, as text.
func (m *machine) look(t *testing.T) map[string]string {
	t.Helper()
	seen := map[string]string{"enabled": fmt.Sprint(m.enabled), "boot loader": m.loader}
	err := filepath.WalkDir(m.root, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, m.root)
		if err != nil || strings.HasPrefix(name, "/var/lib/holdfast/") || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		seen[name] = fmt.Sprint(info.Mode(), m.owners[inode(path)])
		if target, err := os.Readlink(path); err == nil {
			seen[name] += " -> " + target
			return nil
		}
		data, err := os.ReadFile(path)
		seen[name] += " " + string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return maps.Clone(seen)
}

// has makes the journal name a configuration.
func (m *machine) has(t *testing.T, name string, s *spec) {
	t.Helper()
	store := NewStore(m.root)
	store.WriteFile = powercut.WriteFile
	if s != nil {
		if err := store.PutConfig(s.object(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.PutJournal(hostapply.Journal{Good: name}); err != nil {
		t.Fatal(err)
	}
}

// spec builds the object of a configuration.
type spec struct {
	config    types.Config
	arguments []string
}

func (s *spec) file(path, data string, more ...func(*types.File)) *spec {
	f := types.File{Node: types.Node{Path: path}}
	f.Contents.Source = new(ignition.DataURL([]byte(data)))
	for _, change := range more {
		change(&f)
	}
	s.config.Storage.Files = append(s.config.Storage.Files, f)
	return s
}

func (s *spec) unit(u types.Unit) *spec {
	s.config.Systemd.Units = append(s.config.Systemd.Units, u)
	return s
}

func (s *spec) keys(keys ...types.SSHAuthorizedKey) *spec {
	s.config.Passwd.Users = []types.PasswdUser{{Name: "core", SSHAuthorizedKeys: keys}}
	return s
}

func (s *spec) kernel(arguments ...string) *spec {
	s.arguments = arguments
	return s
}

func (s *spec) object(t *testing.T, name string) *mcfgv1.MachineConfig {
	t.Helper()
	s.config.Ignition.Version = ignition.Newest
	raw, err := json.Marshal(s.config)
	if err != nil {
		t.Fatal(err)
	}
	mc := &mcfgv1.MachineConfig{Spec: mcfgv1.MachineConfigSpec{Config: runtime.RawExtension{Raw: raw}, KernelArguments: s.arguments}}
	mc.Name = name
	return mc
}

func refused(err error) string {
	if bad, ok := errors.AsType[*apply.InputError](err); ok {
		return bad.Error()
	}
	return ""
}
