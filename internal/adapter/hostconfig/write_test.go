package hostconfig

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config/v3_5/types"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func owned(f *types.File) {
	f.User.Name, f.Group.Name, f.Mode = new("chrony"), new("chrony"), new(0o640)
}

// first and second replace, add and take away parts of each other and of the
// distribution.
func first() *spec {
	return new(spec).
		file("/etc/motd", "first\n").file("/etc/link.conf", "a file now\n").file("/etc/sysctl.d/50-site.conf", "vm.swappiness = 10\n").
		file("/etc/chrony/keys", "secret\n", owned).file("/opt/site/tool", "#!/bin/sh\n", func(f *types.File) { f.Mode = new(0o755) }).
		unit(types.Unit{Name: "new.service", Enabled: new(true), Contents: new("[Service]\n[Install]\nWantedBy=multi-user.target\n")}).
		unit(types.Unit{Name: "old.service", Enabled: new(false)}).
		unit(types.Unit{Name: "vendor.service", Mask: new(true)}).
		unit(types.Unit{Name: "kubelet.service", Dropins: []types.Dropin{{Name: "50-site.conf", Contents: new("[Service]\nNice=1\n")}}}).
		keys("ssh-ed25519 BBBB pool").kernel("quiet", "mitigations=auto")
}

func second() *spec {
	return new(spec).
		file("/etc/motd", "second\n").file("/etc/sysctl.d/50-site.conf", "vm.swappiness = 20\n").
		unit(types.Unit{Name: "new.service", Enabled: new(false), Contents: new("[Service]\nNice=2\n")}).
		unit(types.Unit{Name: "vendor.service", Enabled: new(true)}).kernel("mitigations=off")
}

func (m *machine) write(t *testing.T) error {
	t.Helper()
	_, err := m.writer().Write(t.Context())
	return err
}

func TestAHostHasWhatItsConfigurationSaysAndNothingThatAnEarlierOneSaid(t *testing.T) {
	m := newMachine(t)
	before := m.look(t)
	m.has(t, "rendered-worker-1", first())
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	after := m.look(t)
	for path, want := range map[string]string{
		"/etc/motd": "-rw-r--r-- [0 0] first\n", "/etc/link.conf": "-rw-r--r-- [0 0] a file now\n", "/etc/chrony/keys": "-rw-r----- [77 78] secret\n",
		"/opt/site/tool": "-rwxr-xr-x [0 0] #!/bin/sh\n", "/etc/systemd/system/vendor.service": "Lrwxrwxrwx [0 0] -> /dev/null",
		"/etc/systemd/system/kubelet.service.d/50-site.conf": "-rw-r--r-- [0 0] [Service]\nNice=1\n",
		"enabled": "map[new.service:true]",
	} {
		if after[path] != want {
			t.Errorf("%s: %q, want %q", path, after[path], want)
		}
	}
	if keys := m.read(t, "/home/core/.ssh/authorized_keys"); !strings.HasPrefix(keys, "ssh-ed25519 AAAA own\n") || !strings.Contains(keys, "\nssh-ed25519 BBBB pool\n") {
		t.Errorf("keys %s", keys)
	}
	if !strings.Contains(m.loader, `GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT quiet mitigations=auto"`) {
		t.Errorf("the boot loader has %s", m.loader)
	}
	m.has(t, "rendered-worker-2", second())
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	fresh := newMachine(t)
	fresh.has(t, "rendered-worker-2", second())
	if err := fresh.write(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fresh.look(t), m.look(t)); diff != "" {
		t.Errorf("the second one after the first is not the second one alone: %s", diff)
	}
	m.has(t, "", nil)
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, m.look(t)); diff != "" {
		t.Errorf("without a configuration the host is not as it was: %s", diff)
	}
}

// TestAWriteCutAtAnyEffectIsFinishedByTheNext cuts the power before and after each
// effect on each of three ways, and then goes on or back.
func TestAWriteCutAtAnyEffectIsFinishedByTheNext(t *testing.T) {
	type way struct {
		name     string
		from, to *spec
	}
	for _, way := range []way{{"there", nil, first()}, {"on", first(), second()}, {"away", second(), nil}} {
		start := func() *machine {
			m := newMachine(t)
			m.has(t, from(way.from), way.from)
			if err := m.write(t); err != nil {
				t.Fatal(err)
			}
			m.Effects = 0
			return m
		}
		whole := start()
		was := whole.look(t)
		whole.has(t, to(way.to), way.to)
		if err := whole.write(t); err != nil {
			t.Fatal(err)
		}
		want := whole.look(t)
		if whole.Effects < 10 {
			t.Fatalf("%s: only %d effects: the test cuts nothing", way.name, whole.Effects)
		}
		for cut := 1; cut <= whole.Effects; cut++ {
			for _, after := range []bool{false, true} {
				for _, back := range []bool{false, true} {
					m := start()
					m.has(t, to(way.to), way.to)
					m.At, m.After = cut, after
					if err := m.write(t); !errors.Is(err, powercut.Err) {
						t.Fatalf("%s, cut at %d: %v", way.name, cut, err)
					}
					m.Dead, m.At = false, 0
					expected := want
					if back {
						m.has(t, from(way.from), way.from)
						expected = was
					}
					if err := m.write(t); err != nil {
						t.Fatalf("%s, cut at %d (after %v), back %v: the next run: %v", way.name, cut, after, back, err)
					}
					if diff := cmp.Diff(expected, m.look(t)); diff != "" {
						t.Fatalf("%s, cut at %d (after %v), back %v: -whole +cut\n%s", way.name, cut, after, back, diff)
					}
				}
			}
		}
	}
}

func from(s *spec) string { return named(s, "rendered-worker-from") }
func to(s *spec) string   { return named(s, "rendered-worker-to") }

func named(s *spec, name string) string {
	if s == nil {
		return ""
	}
	return name
}

func TestASecondRunChangesNoFile(t *testing.T) {
	m := newMachine(t)
	m.has(t, "rendered-worker-1", first())
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	m.Effects = 0
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	if m.Effects != 1 || m.commands[len(m.commands)-1] != "systemctl reenable --no-reload -- new.service" {
		t.Errorf("%d effects, the last %s", m.Effects, m.commands[len(m.commands)-1])
	}
}

func TestWhatAHostCannotHaveIsRefusedBeforeAnythingChanges(t *testing.T) {
	for name, c := range map[string]struct {
		spec *spec
		play func(*machine)
		want string
	}{
		"no such group":      {new(spec).file("/etc/x", "", func(f *types.File) { f.Group.Name = new("nobodies") }), nil, `this host has no group "nobodies"`},
		"a folder":           {new(spec).file("/etc/default", ""), nil, "/etc/default is a directory on this host"},
		"no account":         {new(spec).keys("ssh-ed25519 A"), func(m *machine) { m.put(t, "/etc/passwd", "root:x:0:0::/root:/bin/sh\n", 0o644) }, "this host has no account core"},
		"no boot loader":     {new(spec).kernel("quiet"), func(m *machine) { _ = os.Remove(filepath.Join(m.root, "/usr/sbin/update-grub")) }, "this host has neither GRUB"},
		"no unit":            {new(spec).unit(types.Unit{Name: "missing.service", Enabled: new(true)}), nil, "this host has no unit missing.service to enable"},
		"too large to keep":  {new(spec).file("/opt/big", ""), func(m *machine) { m.put(t, "/opt/big", strings.Repeat("x", maxOriginal+1), 0o644) }, "/opt/big has 16777217 bytes on this host"},
		"what it could have": {first(), nil, ""},
	} {
		m := newMachine(t)
		if c.play != nil {
			c.play(m)
		}
		m.has(t, "rendered-worker-1", c.spec)
		w := m.writer()
		cfg, err := w.Store.Config("rendered-worker-1")
		if err != nil {
			t.Fatal(err)
		}
		why, err := w.Refusal(t.Context(), cfg)
		if err != nil || !strings.Contains(why, c.want) || (why == "") != (c.want == "") {
			t.Errorf("%s: refuses by %q, %v; want %q", name, why, err, c.want)
		}
		if m.Effects != 0 {
			t.Errorf("%s: %d effects", name, m.Effects)
		}
		// The boot loader is asked at the end.
		if err := m.write(t); c.want != "" && name != "no unit" && !strings.Contains(refused(err), c.want) {
			t.Errorf("%s: the run says %v", name, err)
		}
	}
}

func TestWhatSomebodyChangedIsNamed(t *testing.T) {
	m := newMachine(t)
	m.has(t, "rendered-worker-1", first())
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	w := m.writer()
	cfg, err := w.Store.Config("rendered-worker-1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Differences(t.Context(), cfg); err != nil || len(got) != 0 {
		t.Fatalf("nobody changed anything: %q, %v", got, err)
	}
	m.put(t, "/etc/motd", "by hand\n", 0o644)
	m.put(t, "/etc/sysctl.d/50-site.conf", "vm.swappiness = 10\n", 0o600)
	delete(m.enabled, "new.service")
	got, err := w.Differences(t.Context(), cfg)
	want := []string{"file:/etc/motd (other contents)", "mode:/etc/sysctl.d/50-site.conf (other mode or owner)", "enable:new.service (not enabled)"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Differences(t.Context(), cfg); err != nil || len(got) != 0 {
		t.Errorf("a run puts it right: %q, %v", got, err)
	}
	m.put(t, "/etc/passwd", "root:x:0:0::/root:/bin/sh\ncore:x:1000:1000::/home/core:/bin/sh\n", 0o644)
	m.put(t, "/etc/group", "root:x:0:\ncore:x:1000:\n", 0o644)
	got, err = w.Differences(t.Context(), cfg)
	want = []string{`what it needs: storage.files.0.user: this host has no user "chrony" and the configuration adds none; storage.files.0.group: this host has no group "chrony" and the configuration adds none`}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("accounts that are gone: %v, -want +got\n%s", err, diff)
	}
}

func TestAToolThatFailsIsTriedAgain(t *testing.T) {
	m := newMachine(t)
	m.has(t, "rendered-worker-1", first())
	m.broken["update-grub"] = errors.New("exit status 1")
	if err := m.write(t); err == nil || !strings.Contains(err.Error(), "kernel arguments: run update-grub") {
		t.Fatalf("got %v", err)
	}
	m.has(t, "", nil)
	delete(m.broken, "update-grub")
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	if m.loader != "" {
		t.Errorf("the boot loader has %s", m.loader)
	}
}

func TestABootLoaderHasOurArgumentsOnceAndItsOwnStay(t *testing.T) {
	const entry = "/boot/efi/loader/entries/1.conf"
	base := "title Debian\noptions root=/dev/sda1 quiet\nlinux /vmlinuz\n"
	for name, c := range map[string]struct {
		play func(*testing.T, *machine)
		// got is what the boot loader has.
		got          func(*testing.T, *machine) string
		first, other string
		none         string
	}{
		"systemd-boot": {
			func(t *testing.T, m *machine) {
				m.put(t, entry, base, 0o700)
				m.put(t, "/boot/efi/EFI/systemd/x.efi", "", 0o700)
				m.put(t, kernelLine, "# by hand\nroot=/dev/sda1 quiet\n", 0o644)
			},
			func(t *testing.T, m *machine) string { return m.read(t, entry) + m.read(t, kernelLine) },
			"title Debian\noptions root=/dev/sda1 quiet quiet mitigations=auto\nlinux /vmlinuz\n# by hand\nroot=/dev/sda1 quiet quiet mitigations=auto\n",
			"title Debian\noptions root=/dev/sda1 quiet mitigations=off\nlinux /vmlinuz\n# by hand\nroot=/dev/sda1 quiet mitigations=off\n",
			base + "# by hand\nroot=/dev/sda1 quiet\n",
		},
		"grubby": {
			func(t *testing.T, m *machine) {
				m.put(t, "/usr/sbin/grubby", "", 0o755)
				m.loader = "ro crashkernel=1G quiet mitigations=nosmt"
			},
			func(_ *testing.T, m *machine) string { return m.loader },
			"ro crashkernel=1G quiet mitigations=auto",
			"ro crashkernel=1G quiet mitigations=off",
			"ro crashkernel=1G quiet mitigations=nosmt",
		},
	} {
		m := newMachine(t)
		c.play(t, m)
		for _, step := range []struct {
			config string
			spec   *spec
			want   string
		}{{"rendered-worker-1", first(), c.first}, {"rendered-worker-2", second(), c.other}, {"", nil, c.none}} {
			m.has(t, step.config, step.spec)
			if err := m.write(t); err != nil {
				t.Fatal(err)
			}
			if got := c.got(t, m); got != step.want {
				t.Errorf("%s, %q: %q, want %q", name, step.config, got, step.want)
			}
		}
	}
}

// TestAnEntryOfALaterKernelHasOurArgumentsOnceToo: kernel-install makes it from the line of later
// kernels, and puts the machine's name behind that.
func TestAnEntryOfALaterKernelHasOurArgumentsOnceToo(t *testing.T) {
	const later = "/boot/efi/loader/entries/2.conf"
	m := newMachine(t)
	m.put(t, "/boot/efi/loader/entries/1.conf", "options root=/dev/sda1\n", 0o700)
	m.put(t, "/boot/efi/EFI/systemd/x.efi", "", 0o700)
	m.put(t, kernelLine, "root=/dev/sda1\n", 0o644)
	m.has(t, "rendered-worker-1", first())
	if err := m.write(t); err != nil {
		t.Fatal(err)
	}
	m.put(t, later, "options "+strings.TrimSpace(m.read(t, kernelLine))+" systemd.machine_id=abc\n", 0o700)
	for _, step := range []struct {
		config string
		spec   *spec
		want   string
	}{
		{"rendered-worker-2", second(), "options root=/dev/sda1 systemd.machine_id=abc mitigations=off\n"},
		{"rendered-worker-1", first(), "options root=/dev/sda1 systemd.machine_id=abc quiet mitigations=auto\n"},
		{"", nil, "options root=/dev/sda1 systemd.machine_id=abc\n"},
	} {
		m.has(t, step.config, step.spec)
		if err := m.write(t); err != nil {
			t.Fatal(err)
		}
		if got := m.read(t, later); got != step.want {
			t.Errorf("%q: %q, want %q", step.config, got, step.want)
		}
	}
}

// TestArgumentsThatSomebodyTookFromTheBootLoaderAreGivenOnceMore: the host was booted
// without them, and the next run tells the boot loader, until the host has booted with them.
func TestArgumentsThatSomebodyTookFromTheBootLoaderAreGivenOnceMore(t *testing.T) {
	m := newMachine(t)
	m.put(t, "/usr/sbin/grubby", "", 0o755)
	m.loader = "ro"
	m.has(t, "rendered-worker-1", first())
	for _, booted := range []string{"ro", "ro quiet mitigations=auto\n"} {
		for range 2 {
			if err := m.write(t); err != nil {
				t.Fatal(err)
			}
			if m.loader != "ro quiet mitigations=auto" {
				t.Errorf("booted with %q, and the boot loader has %q", booted, m.loader)
			}
			m.put(t, "/proc/cmdline", booted, 0o444)
			if m.commands = nil; booted == "ro" {
				m.loader = "ro" // it was taken away
			}
		}
	}
	if err := m.write(t); err != nil || slices.ContainsFunc(m.commands, func(c string) bool { return strings.HasPrefix(c, "grubby") }) {
		t.Errorf("a host that was booted with them: %q, %v", m.commands, err)
	}
}

// TestWhatGrubbyReplacesIsGivenBackOnce, over a run that is cut at any effect. What could
// not be given back is refused before anything is replaced.
func TestWhatGrubbyReplacesIsGivenBackOnce(t *testing.T) {
	const own = "ro crashkernel=1G console=tty0"
	serial := func() *spec { return new(spec).kernel("console=ttyS0", "nosmt") }
	on := func() *machine {
		m := newMachine(t)
		m.put(t, "/usr/sbin/grubby", "", 0o755)
		m.loader = own
		return m
	}
	whole := on()
	whole.has(t, "rendered-worker-1", serial())
	if err := whole.write(t); err != nil || whole.loader != "ro crashkernel=1G console=ttyS0 nosmt" {
		t.Fatalf("the boot loader has %q: %v", whole.loader, err)
	}
	for cut := range 2 * whole.Effects {
		m := on()
		m.has(t, "rendered-worker-1", serial())
		m.At, m.After = 1+cut/2, cut%2 == 1
		if err := m.write(t); !errors.Is(err, powercut.Err) {
			t.Fatalf("cut at %d: %v", m.At, err)
		}
		m.Dead, m.At = false, 0
		for _, c := range []struct {
			config, want string
			spec         *spec
		}{{"rendered-worker-2", "ro crashkernel=1G console=ttyS1", new(spec).kernel("console=ttyS1")}, {"", own, nil}, {"", own, nil}} {
			m.has(t, c.config, c.spec)
			if err := m.write(t); err != nil || m.loader != c.want {
				t.Errorf("cut after %d, %q: the boot loader has %q: %v", cut, c.config, m.loader, err)
			}
		}
	}
	m := on()
	m.loader = "ro console=tty0 console=ttyS0"
	m.has(t, "rendered-worker-1", serial())
	if err := m.write(t); !strings.Contains(refused(err), "has console=tty0 and console=ttyS0") || m.loader != "ro console=tty0 console=ttyS0" {
		t.Errorf("several of one name: %v, the boot loader has %q", err, m.loader)
	}
}

// A run that was cut may have left any of several lists at the end of a line.
func TestAnEntryThatACutRunLeftGetsOurArgumentsOnce(t *testing.T) {
	m := newMachine(t)
	m.put(t, "/efi/loader/entries/1.conf", "options root=x a b\n", 0o644)
	m.put(t, "/efi/EFI/systemd/x.efi", "", 0o644)
	w := m.writer()
	o := originals{Arguments: []string{"b"}, Setting: [][]string{{"a", "b"}, {"c"}}}
	if err := w.setArguments(t.Context(), &o, []string{"d"}); err != nil {
		t.Fatal(err)
	}
	if got := m.read(t, "/efi/loader/entries/1.conf"); got != "options root=x d\n" {
		t.Errorf("got %q", got)
	}
	if diff := cmp.Diff(originals{Arguments: []string{"d"}}, o); diff != "" {
		t.Error(diff)
	}
}

func TestMissingArgumentsAreWholeWords(t *testing.T) {
	got := MissingArguments("root=x quiet mitigations=auto,nosmt\n", []string{"quiet", "mitigations=auto", "root"})
	if diff := cmp.Diff([]string{"mitigations=auto", "root"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStoreKeepsWhatIsNamedAndRefusesNamesThatLeadElsewhere(t *testing.T) {
	s := NewStore(t.TempDir())
	for _, name := range []string{"rendered-a", "rendered-b"} {
		if err := s.PutConfig(first().object(t, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Rest("rendered-b", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Config("rendered-a"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rendered-a: %v", err)
	}
	if cfg, err := s.Config("rendered-b"); err != nil || len(cfg.KernelArguments) != 2 {
		t.Errorf("rendered-b: %+v, %v", cfg, err)
	}
	for _, name := range []string{"../x", "a/b", "", ".."} {
		if err := s.PutConfig(first().object(t, name)); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
	info, err := os.Stat(filepath.Join(s.Root, Folder))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestAJournalThatCannotBeReadIsNoJournal(t *testing.T) {
	m := newMachine(t)
	m.put(t, JournalPath, "{", 0o600)
	before := m.look(t)
	if err := m.write(t); err == nil || !strings.Contains(err.Error(), JournalPath) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, m.look(t)); diff != "" {
		t.Error(diff)
	}
}
