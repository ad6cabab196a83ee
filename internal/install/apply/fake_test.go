package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// machine simulates a host in a directory. Its files are real, its tools are
// fakes that keep their state here, and a test can cut a run at any effect.
type machine struct {
	root     string
	enabled  map[string]bool
	active   map[string]bool
	stale    bool
	missing  map[string]bool
	owners   map[string][2]int
	broken   map[string]error // command name → its error
	commands []string

	powercut.Cut
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{
		root: t.TempDir(), enabled: map[string]bool{}, active: map[string]bool{}, missing: map[string]bool{},
		owners: map[string][2]int{}, broken: map[string]error{},
	}
	m.put(t, "/etc/passwd", "root:x:0:0:root:/root:/bin/bash\n", 0o644)
	m.put(t, "/etc/group", "root:x:0:\nsudo:x:27:\n", 0o644)
	m.put(t, "/etc/shadow", "root:*:1::::::\n", 0o600)
	m.put(t, "/usr/bin/apt-get", "", 0o755)
	if err := os.Mkdir(filepath.Join(m.root, "root"), 0o700); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *machine) put(t *testing.T, path, data string, mode fs.FileMode) {
	t.Helper()
	if err := host.WriteFileAtomic(filepath.Join(m.root, path), []byte(data), mode); err != nil {
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

// host returns the machine in the form that Apply takes.
func (m *machine) host() *Host {
	h := NewHost(m.root)
	real := *h
	h.Live = true
	h.WriteFile = func(path string, data []byte, mode fs.FileMode) error {
		err := m.Effect(func() error { return real.WriteFile(path, data, mode) })
		if errors.Is(err, powercut.Err) && !m.After {
			// A kill in the middle of an atomic write leaves this file.
			tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".123")
			_ = os.MkdirAll(filepath.Dir(path), 0o755)
			_ = os.WriteFile(tmp, data[:len(data)/2], 0o600)
		}
		return err
	}
	h.WriteFor = func(path string, data []byte, mode fs.FileMode, uid, gid int) error {
		dead := m.Dead
		err := h.WriteFile(path, data, mode)
		if err == nil || m.After && !dead {
			m.owners[m.inode(path)] = [2]int{uid, gid}
		}
		return err
	}
	h.Mkdir = func(p string, mode fs.FileMode) error { return m.Effect(func() error { return real.Mkdir(p, mode) }) }
	h.Chmod = func(p string, mode fs.FileMode) error { return m.Effect(func() error { return real.Chmod(p, mode) }) }
	h.Remove = func(p string) error { return m.Effect(func() error { return real.Remove(p) }) }
	h.Symlink = func(target, p string) error { return m.Effect(func() error { return real.Symlink(target, p) }) }
	h.Link = func(target, p string) error { return m.Effect(func() error { return real.Link(target, p) }) }
	h.Chown = func(p string, uid, gid int) error {
		return m.Effect(func() error { m.owners[m.inode(p)] = [2]int{uid, gid}; return nil })
	}
	h.Owner = func(info fs.FileInfo) (int, int) {
		o := m.owners[fmt.Sprint(inodeOf(info))]
		return o[0], o[1]
	}
	h.Run = func(ctx context.Context, c host.Cmd) ([]byte, error) { return m.run(ctx, c) }
	return h
}

func (m *machine) inode(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		panic(err)
	}
	return fmt.Sprint(inodeOf(info))
}

func (m *machine) run(ctx context.Context, c host.Cmd) ([]byte, error) {
	args := slices.DeleteFunc(slices.Clone(c.Args), func(a string) bool {
		return strings.HasPrefix(a, "--root") || a == m.root
	})
	m.commands = append(m.commands, strings.Join(append([]string{c.Name}, args...), " "))
	if err := m.broken[c.Name]; err != nil {
		return nil, &host.RunError{Cmd: c, ExitCode: 100, Err: err, Output: "E: broken"}
	}
	switch c.Name {
	case "dpkg-query":
		return m.dpkgQuery(args)
	case "systemctl":
		return m.systemctl(args)
	}
	return nil, m.Effect(func() error { return m.tool(c, args) })
}

func (m *machine) dpkgQuery(args []string) ([]byte, error) {
	var out strings.Builder
	var err error
	for _, name := range args[slices.Index(args, "--")+1:] {
		if m.missing[name] {
			err = &host.RunError{ExitCode: 1}
			continue
		}
		fmt.Fprintf(&out, "%s installed\n", name)
	}
	return []byte(out.String()), err
}

func (m *machine) systemctl(args []string) ([]byte, error) {
	units := args[slices.Index(args, "--")+1:]
	switch args[0] {
	case "is-enabled":
		if m.enabled[units[0]] {
			return []byte("enabled\n"), nil
		}
		return []byte("disabled\n"), &host.RunError{ExitCode: 1}
	case "show":
		var blocks []string
		for _, u := range units {
			blocks = append(blocks, fmt.Sprintf("Type=oneshot\nActiveState=%s\nNeedDaemonReload=%s\nConditionResult=no\nConditionTimestampMonotonic=0\n",
				map[bool]string{true: "active", false: "inactive"}[m.active[u]], map[bool]string{true: "yes", false: "no"}[m.stale]))
		}
		return []byte(strings.Join(blocks, "\n")), nil
	}
	return nil, m.Effect(func() error {
		switch args[0] {
		case "enable", "reenable":
			m.enabled[units[0]] = true
		case "disable":
			m.enabled[units[0]] = false
		case "start":
			m.active[units[0]] = true
		case "stop":
			m.active[units[0]] = false
		case "daemon-reload":
			m.stale = false
		default:
			panic("systemctl " + strings.Join(args, " "))
		}
		return nil
	})
}

func (m *machine) tool(c host.Cmd, args []string) error {
	last := args[len(args)-1]
	appendTo := func(file, line string) error {
		f, err := os.OpenFile(filepath.Join(m.root, file), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line)
		return errors.Join(err, f.Close())
	}
	switch c.Name {
	case "apt-get":
		if slices.Contains(args, "install") {
			clear(m.missing)
		}
		return nil
	case "dpkg":
		return nil
	case "groupadd":
		return appendTo("/etc/group", last+":x:2000:\n")
	case "useradd":
		return errors.Join(appendTo("/etc/group", last+":x:1000:\n"), appendTo("/etc/shadow", last+":!:::::::\n"),
			appendTo("/etc/passwd", last+":x:1000:1000::/home/"+last+":/bin/sh\n"),
			m.joinGroup(last, args), m.home(last))
	case "usermod":
		return m.joinGroup(last, args)
	case "chpasswd":
		line, err := io.ReadAll(c.Stdin)
		name, hash, _ := strings.Cut(strings.TrimSpace(string(line)), ":")
		return errors.Join(err, m.edit("/etc/shadow", name+":!:", name+":"+hash+":"))
	default:
		panic("no fake for " + c.String())
	}
}

// home creates a new user's home directory, unless useradd is cut before that.
func (m *machine) home(user string) error {
	if m.Dead {
		return nil
	}
	dir := filepath.Join(m.root, "home", user)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	m.owners[m.inode(dir)] = [2]int{1000, 1000}
	return os.Chmod(dir, 0o700)
}

func (m *machine) joinGroup(user string, args []string) error {
	i := slices.Index(args, "--groups")
	if i < 0 {
		return nil
	}
	return m.edit("/etc/group", args[i+1]+":x:27:", args[i+1]+":x:27:"+user)
}

func (m *machine) edit(file, old, new string) error {
	path := filepath.Join(m.root, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o600)
}

// look returns everything that a run may leave on the machine, as text.
func (m *machine) look(t *testing.T) map[string]string {
	t.Helper()
	seen := map[string]string{"enabled": fmt.Sprint(m.enabled), "active": fmt.Sprint(m.active), "missing": fmt.Sprint(m.missing)}
	err := filepath.WalkDir(m.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		what := fmt.Sprint(info.Mode(), m.owners[m.inode(path)])
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += " " + string(data)
		}
		if target, err := os.Readlink(path); err == nil {
			what += " -> " + target
		}
		seen[strings.TrimPrefix(path, m.root)] = what
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return maps.Clone(seen)
}
