package host

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

func written(t *testing.T, pair bool, path string) string {
	t.Helper()
	for _, f := range updates(pair) {
		if f.Path == path {
			name := filepath.Join(t.TempDir(), filepath.Base(path))
			write(t, name, string(f.Data))
			return name
		}
	}
	t.Fatalf("no file %s", path)
	return ""
}

// need returns the path of a program that each Debian host has.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: what it reads is not checked", name)
	}
	return path
}

// aptReads returns the values of a list as apt itself reads the file.
func aptReads(t *testing.T, pair bool, name string) []string {
	t.Helper()
	path := written(t, pair, UnattendedPath)
	out, err := exec.CommandContext(t.Context(), need(t, "apt-config"), "-c", path, "dump", "--format=%f=%v%n", name).CombinedOutput()
	if err != nil {
		t.Fatalf("apt-config: %v\n%s", err, out)
	}
	var values []string
	for line := range strings.Lines(string(out)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(key, name) && value != "" {
			values = append(values, value)
		}
	}
	return values
}

func TestAptReadsThatNothingRebootsAHostAutomatically(t *testing.T) {
	for _, pair := range []bool{false, true} {
		if got := aptReads(t, pair, "Unattended-Upgrade::Automatic-Reboot"); !slices.Equal(got, []string{"false"}) {
			t.Errorf("two control planes %t: apt reads %q, want false", pair, got)
		}
	}
}

// unattended-upgrades matches a package's name with each expression from its
// beginning on.
func TestUnattendedUpgradesLeaveAloneWhatEtcdRunsOn(t *testing.T) {
	if got := aptReads(t, false, "Unattended-Upgrade::Package-Blacklist"); len(got) > 0 {
		t.Errorf("a host without Pacemaker holds %v back, want nothing: they are security updates", got)
	}
	held := aptReads(t, true, "Unattended-Upgrade::Package-Blacklist")
	matches := func(name string) bool {
		return slices.ContainsFunc(held, func(e string) bool { return regexp.MustCompile(`^(?:` + e + `)`).MatchString(name) })
	}
	base := payload.HostPackages()
	for _, name := range append(payload.HostPackages(payload.ExtensionTwoNodeHA), "libknet1", "libqb100", "libcpg4", "libcmap4", "libcrmcommon34", "libpe-status28", "conmon", "crun", "pacemaker-resource-agents") {
		ours := !slices.Contains(base, name) && name != "logrotate" || name == "runc"
		if matches(name) != ours {
			t.Errorf("%s is held back: %t, want %t", name, matches(name), ours)
		}
	}
	for _, name := range []string{"openssl", "pcscd", "linux-image-amd64", "openssh-server", "systemd", "libc6"} {
		if matches(name) {
			t.Errorf("%s is held back, want its security updates", name)
		}
	}
}

// needrestart evaluates the file as Perl, and takes the first expression that
// matches a unit.
func TestNeedrestartLeavesUnitsOfTheClusterAlone(t *testing.T) {
	const script = `our %nrconf = (override_rc => {}); my $f = shift; do $f or $@ and die $@;
for my $unit (@ARGV) { my $v = 1; for my $re (keys %{$nrconf{override_rc}}) { $v = $nrconf{override_rc}->{$re} if $unit =~ /$re/ } print "$unit $v\n" }`
	kept := []string{"containerd.service", "kubelet.service", "holdfast-agent.service", "systemd-networkd.service", "NetworkManager.service", "networking.service"}
	ofPair := []string{CorosyncUnit, "pacemaker.service", PcsdUnit, EtcdUnit}
	for _, pair := range []bool{false, true} {
		path := written(t, pair, NeedrestartPath)
		units := append(slices.Concat(kept, ofPair), "ssh.service", "chrony.service")
		out, err := exec.CommandContext(t.Context(), need(t, "perl"), append([]string{"-e", script, path}, units...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("perl: %v\n%s", err, out)
		}
		for _, unit := range units {
			want := " 1\n"
			if slices.Contains(kept, unit) || pair && slices.Contains(ofPair, unit) {
				want = " 0\n"
			}
			if !strings.Contains(string(out), unit+want) {
				t.Errorf("two control planes %t: want %q in\n%s", pair, unit+want, out)
			}
		}
	}
}

func TestEveryHostSaysWhatUpdatesDo(t *testing.T) {
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		c, err := Config(fixed(t, everything), role, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{UnattendedPath, NeedrestartPath} {
			if !slices.ContainsFunc(c.Files, func(f state.File) bool { return f.Path == path }) {
				t.Errorf("%s has no %s", role, path)
			}
		}
		holds := slices.ContainsFunc(c.Files, func(f state.File) bool {
			return f.Path == UnattendedPath && strings.Contains(string(f.Data), "pacemaker")
		})
		if holds != role.ControlPlane() {
			t.Errorf("%s holds Pacemaker back: %t, want %t", role, holds, role.ControlPlane())
		}
	}
}
