package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/golden"
)

// unitsPage is the page with the figures, between marks, and their meaning.
const unitsPage = "../../../docs/units.md"

// stays contains the reasons why a unit is not confined further; each has a
// line of the page.
var stays = map[string]string{
	AgentUnit: "It runs as root: it writes `/etc`, `/run` and `/var`, addresses and nftables (`CAP_NET_ADMIN`), adverts and questions by raw frames " +
		"(`CAP_NET_RAW`, `AF_PACKET`), signals to keepalived, haproxy, CoreDNS, the controller manager and the scheduler (`CAP_KILL`), real-time scheduling of keepalived (`CAP_SYS_NICE`, no `RestrictRealtime`) " +
		"and a look at its open files and at what static pods have mounted (`CAP_SYS_PTRACE`), `/proc/sys` (no `ProtectKernelTunables`), the host's name as it changes (no `ProtectHostname`), " +
		"the state of the clock (`adjtimex`, no `ProtectClock`; it has no capability to set it), and starts on a full disk (a `/tmp` in memory and `DevicePolicy`, no `PrivateTmp` and `PrivateDevices`). pcs, which it calls, is Python (no `MemoryDenyWriteExecute`). It dials any address (no `IPAddressDeny`).",
	EtcdUnit: "podman makes containers from it, which need all capabilities and mounts, and inherit every filter; all callers of podman have to see the same mounts. " +
		"Whether it may lower OOM scores it reads from its own capabilities.",
	KubeletUnit:    "It mounts volumes where containers see them, makes control groups and devices, and enters containers.",
	ContainerdUnit: "Containers inherit what it may not: a filter here would be one in every pod. `LimitCORE=0` is, on purpose.",
	InstallUnit:    "It runs once, unpacks a release everywhere, runs kubeadm, and podman as the unit below. It is gone when the host is installed.",
	ConfigureUnit: "It runs as root, only when the agent has a machine configuration written: files below `/etc`, `/opt`, `/srv`, `/usr/local` and `/var`, keys in homes, " +
		"and kernel arguments in `/boot` and `/efi`, for which GRUB's tools read disks and volumes (no `PrivateDevices`, `CAP_SYS_ADMIN`). It has no network.",
	PatchUnit:     "It runs as root, only when somebody wants updates of the distribution and the host has its turn: scripts of packages do what they do anywhere else.",
	LeaveUnit:     "It runs once in each shutdown. It reads the agent's access to the API as root (`CAP_DAC_READ_SEARCH`), talks to systemd, to the API and to the agent's socket, and writes nothing.",
	LifeUnit:      "It runs once at each boot of a control plane. It reads the site's authorities as root (`CAP_DAC_READ_SEARCH`), asks other control planes, may write `/var/lib/holdfast`, `/etc/kubernetes/manifests` and `/etc/holdfast/kept` (a word of its own, and the manifest of etcd with its copies) and ask systemd to switch the host off, and starts on a full disk (no `PrivateTmp` and `PrivateDevices`).",
	TrustUnit:     "It runs once at each boot, and after a change of the authorities that the site adds, as root over `/etc`, `/var` and `/usr/local/share`. It has no network.",
	ParachuteUnit: "It is there only while a host is on its way to another release, and runs the program of the old one: it writes where programs lie, ends and starts daemons through systemd, and asks API servers whether they serve.",
	BringUnit:     "It runs for minutes, only on the control plane that brings a part of a release to the cluster. It reads the administrator's access to the API as root (`CAP_DAC_READ_SEARCH`), talks to the API, and writes how it ended below `/run`.",
	SwitchUnit:    "It is there as long, and runs once: it writes where programs lie, and podman as the unit above, with the host's mounts.",
}

// everyUnit returns all of our units as hosts have them.
func everyUnit(t *testing.T) []ignition.Unit {
	t.Helper()
	var out []ignition.Unit
	c, err := Config(fixed(t, everything), state.RoleMaster, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range c.Units {
		if strings.Contains(u.Contents, "ExecStart=") {
			out = append(out, u)
		}
	}
	for _, f := range Parachute("sha256:"+strings.Repeat("0", 64), "/hangs") {
		if name := filepath.Base(f.Path); name == ParachuteUnit || name == SwitchUnit {
			out = append(out, ignition.Unit{Name: name, Contents: string(f.Data)})
		}
	}
	out = append(out, ignition.Unit{Name: LifeUnit, Contents: string(LifeUnits("/out")[0].Data)})
	out = append(out, ignition.Unit{Name: BringUnit, Contents: string(Bring("sha256:"+strings.Repeat("0", 64), "objects").Data)})
	return out
}

// restricting matches the settings that no unit had before, except containerd's
// limit, which was infinite.
var restricting = regexp.MustCompile(`^(LimitCORE|LockPersonality|SystemCall\w+|NoNewPrivileges|Protect\w+|ReadWritePaths|Private\w+|Restrict\w+|CapabilityBoundingSet|TemporaryFileSystem|DevicePolicy)=`)

func before(unit string) string {
	var out strings.Builder
	for line := range strings.Lines(unit) {
		if !restricting.MatchString(line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

var overall = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// exposure returns systemd's rating of a unit, from 0 to 10.
func exposure(t *testing.T, name, unit string) float64 {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", path).CombinedOutput()
	found := overall.FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("%v: %s", err, out)
	}
	n, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// analyser returns systemd's version as `systemd-analyze` prints it.
func analyser(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "--version").Output()
	if err != nil {
		t.Skipf("NOT TESTED: %v", err)
	}
	words := strings.Fields(string(out))
	return strings.Join(words[:min(2, len(words))], " ")
}

// slack is the tolerated difference to another version of systemd: each version
// rates a few things more.
const slack = 0.5

// docs/attacks.md, F17: no unit had any of systemd's hardening.
func TestTheUnitsAreAsConfinedAsTheirPageSays(t *testing.T) {
	version := analyser(t)
	var out strings.Builder
	fmt.Fprintf(&out, "\n| unit | before | after (%s) | why not less |\n|---|---|---|---|\n", version)
	was := golden.ReadSection(t, unitsPage, "exposure")
	for _, u := range everyUnit(t) {
		if stays[u.Name] == "" {
			t.Errorf("nobody says why %s may do what it may", u.Name)
		}
		now := exposure(t, u.Name, u.Contents)
		fmt.Fprintf(&out, "| `%s` | %.1f | %.1f | %s |\n", u.Name, exposure(t, u.Name, before(u.Contents)), now, stays[u.Name])
		if !golden.Updating() && now > recorded(t, was, u.Name)+slack {
			t.Errorf("%s: exposure %.1f, its page says %.1f", u.Name, now, recorded(t, was, u.Name))
		}
	}
	out.WriteString("\n")
	if golden.Updating() || strings.Contains(was, "("+version+")") {
		golden.Section(t, unitsPage, "exposure", out.String())
	}
}

// recorded returns the figure of the page for a unit.
func recorded(t *testing.T, section, unit string) float64 {
	t.Helper()
	for line := range strings.Lines(section) {
		cells := strings.Split(line, " | ")
		if len(cells) < 4 || !strings.Contains(cells[0], "`"+unit+"`") {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(cells[2]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	t.Fatalf("%s is not on %s", unit, unitsPage)
	return 0
}

// A killed agent must restart on a full disk too: it decides who holds a virtual
// IP. A former control plane must ask at its boot: the cluster starts there if the
// question does not.
func TestTheAgentStartsWithoutRoomOnADisk(t *testing.T) {
	for _, u := range everyUnit(t) {
		for _, writes := range []string{"PrivateTmp=", "PrivateDevices=", "StateDirectory=", "CacheDirectory=", "LogsDirectory=", "DynamicUser="} {
			if (u.Name == AgentUnit || u.Name == LifeUnit) && strings.Contains(u.Contents, "\n"+writes) {
				t.Errorf("%s: %s has systemd make folders on a disk", u.Name, writes)
			}
		}
	}
}

// No program's memory, which contains keys, may reach the disk.
func TestNoUnitLeavesACore(t *testing.T) {
	for _, u := range everyUnit(t) {
		if !strings.Contains(u.Contents, "\nLimitCORE=0\n") && u.Name != TrustUnit {
			t.Errorf("%s may leave one", u.Name)
		}
	}
}

// Containers, the programs that podman starts and programs that mount for
// others use the host's own mounts: a unit with its own mounts would hide
// theirs from everybody else.
func TestUnitsThatMountForOthersHaveTheHostsMounts(t *testing.T) {
	own := regexp.MustCompile(`(?m)^(ProtectSystem|ProtectHome|Private(Tmp|Devices|Mounts)|ProtectKernel\w+|ProtectControlGroups|ProtectProc|ReadWritePaths|ReadOnlyPaths|InaccessiblePaths)=`)
	for _, u := range everyUnit(t) {
		switch u.Name {
		case ContainerdUnit, KubeletUnit, EtcdUnit, InstallUnit:
			if found := own.FindString(u.Contents); found != "" {
				t.Errorf("%s has %s", u.Name, found)
			}
		}
	}
}
