// Package resolver tests the host's resolver on real hosts, with each tool that
// writes its configuration.
package resolver

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const connection = `[connection]
id=eth0
type=ethernet
interface-name=eth0
[ipv4]
method=manual
address1=10.98.0.11/24
dns=10.98.0.53;
dns-search=office.test;
[ipv6]
method=disabled
`

const networkd = `[Match]
Name=eth0
[Network]
Address=10.98.0.11/24
DNS=10.98.0.53
Domains=office.test
LinkLocalAddressing=no
`

const (
	nmUp  = "grep -q 10.98.0.53 /run/NetworkManager/resolv.conf && grep -q nameserver /etc/resolv.conf"
	plain = "search office.test\nnameserver 10.98.0.53\n"
)

var kinds = map[string]kind{
	"NetworkManager": {
		packages: []string{"network-manager"}, interfaces: true, writer: "NetworkManager",
		files:   map[string]string{"/etc/NetworkManager/system-connections/eth0.nmconnection": connection, "/etc/resolv.conf": "# old\n"},
		prepare: "systemctl disable systemd-networkd",
		up:      nmUp, rewrite: "nmcli connection modify eth0 ipv4.dns-search other.test && nmcli connection up eth0",
	},
	"NetworkManager and systemd-resolved": {
		packages: []string{"network-manager", "systemd-resolved"}, interfaces: true, writer: "systemd-resolved",
		files: map[string]string{
			"/etc/NetworkManager/system-connections/eth0.nmconnection": connection, "/etc/resolv.conf": "->../run/systemd/resolve/stub-resolv.conf",
		},
		prepare: "systemctl enable systemd-resolved", up: "grep -q 10.98.0.53 /run/systemd/resolve/resolv.conf",
		rewrite: "nmcli connection modify eth0 ipv4.dns-search other.test && nmcli connection up eth0",
	},
	"systemd-networkd and systemd-resolved": {
		packages: []string{"network-manager", "systemd-resolved"}, interfaces: true, writer: "systemd-resolved",
		files: map[string]string{
			"/etc/systemd/network/eth0.network": networkd, "/etc/resolv.conf": "->../run/systemd/resolve/stub-resolv.conf",
		},
		prepare: "systemctl disable NetworkManager; systemctl mask NetworkManager; systemctl enable systemd-networkd systemd-resolved",
		up:      "grep -q 10.98.0.53 /run/systemd/resolve/resolv.conf",
		rewrite: "sed -i s/office/other/ /etc/systemd/network/eth0.network && networkctl reload && networkctl reconfigure eth0",
	},
	"resolvconf": {
		packages: []string{"resolvconf"}, writer: "resolvconf",
		files:   map[string]string{"/etc/resolv.conf": "->/run/resolvconf/resolv.conf"},
		prepare: "systemctl enable resolvconf",
		up:      "resolvconf --updates-are-enabled && printf 'search office.test\\nnameserver 10.98.0.53\\n' | resolvconf -a eth0.dhclient && grep -q 10.98.0.53 /etc/resolv.conf",
		rewrite: "printf 'search other.test\\nnameserver 10.98.0.53\\n' | resolvconf -a eth0.dhclient",
	},
	"a plain file": {
		packages: []string{"resolvconf"}, writer: "nobody",
		files:   map[string]string{"/etc/resolv.conf": plain},
		prepare: "systemctl mask resolvconf", up: "systemctl is-active basic.target",
		rewrite: "printf 'search other.test\\nnameserver 10.98.0.53\\n' >/etc/resolv.conf",
	},
}

func TestHardCase31_RealToolsArePrependedAndRestored(t *testing.T) {
	for name, k := range kinds {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { prependAndRestore(t, k) })
	}
}

func prependAndRestore(t *testing.T, k kind) {
	m := start(t, k)
	before := m.file()
	if got := m.look(); got.Writer != k.writer || fmt.Sprint(got.Servers) != "["+siteIP+":53]" {
		t.Errorf("before: %+v", got)
	}
	m.begin("dns")
	defer m.end("dns")
	m.until("getent ahosts localhost >/dev/null")
	if got := m.child("prepend"); got != "true\n" {
		t.Errorf("prepended: %s", got)
	}
	m.until(resolves(apiName, apiIP))
	m.until(resolves("api-int", apiIP))
	m.until(resolves(foreign, foreignIP))
	m.until(resolves("www", foreignIP))
	if got := m.child("prepend"); got != "false\n" {
		t.Errorf("prepended again: %s\n%s", got, m.tell())
	}
	if got := m.look(); got.Writer != k.writer || !strings.Contains(fmt.Sprint(got.Servers), siteIP+":53") {
		t.Errorf("after: %+v", got)
	}
	m.child("remove")
	m.until(resolves(foreign, foreignIP))
	if after := m.file(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if left, _ := m.sh("find / -xdev -name '*holdfast*' -newer /t/child -path '*resolv*'; ls /run/systemd/resolved.conf.d /run/NetworkManager/conf.d 2>/dev/null | grep holdfast"); left != "" {
		t.Errorf("left: %s", left)
	}
}

func TestHardCase34_RealHostsResolveForeignNamesWhenTheirNameServerIsDead(t *testing.T) {
	for name, k := range kinds {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { die(t, k) })
	}
}

func die(t *testing.T, k kind) {
	m := start(t, k)
	before := m.file()
	m.begin("dns")
	m.begin("agent")
	t.Logf("API's name found %s after the agent started", m.until(resolves(apiName, apiIP)).Round(time.Millisecond))
	m.until(resolves(foreign, foreignIP))

	// The tool writes its configuration again.
	m.must(k.rewrite)
	t.Logf("and %s after the tool wrote its configuration", m.until(resolves(apiName, apiIP)).Round(time.Millisecond))
	m.quiet()

	m.end("dns")
	t.Log(m.foreignNames("killed"))
	m.quiet()
	m.begin("dns")
	t.Logf("API's name found %s after the name server came back", m.until(resolves(apiName, apiIP)).Round(time.Millisecond))
	m.must("systemctl kill -s STOP t-dns")
	t.Log(m.foreignNames("hung"))
	m.must("systemctl kill -s CONT t-dns")
	m.until(resolves(apiName, apiIP))
	m.end("agent")
	m.end("dns")
	m.child("remove")
	before = strings.ReplaceAll(before, "office.test", "other.test") // as the tool wrote it
	if after := lines(m.file()); after != lines(before) {
		t.Errorf("before:\n%s\nafter:\n%s\n%s", before, after, m.must("journalctl -u t-agent --no-pager | tail -n 40"))
	}
}

// TestB57_ASecondBootIsAsTheFirst makes the tool write its configuration before
// the agent runs, and the agent prepend its server again.
func TestB57_ASecondBootIsAsTheFirst(t *testing.T) {
	for name, k := range kinds {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			m := start(t, k)
			m.begin("dns")
			m.begin("agent")
			m.until(resolves(apiName, apiIP))
			m.reboot(k)
			m.until("systemctl is-active basic.target")
			m.until(k.up)
			m.until(resolves(foreign, foreignIP))
			m.begin("dns")
			m.begin("agent")
			m.until(resolves(apiName, apiIP))
			m.until("test -e /run/holdfast/resolver/ready")
			m.until(resolves(foreign, foreignIP))
			m.quiet()
		})
	}
}

// TestB61_TheNameOfAVIPIsNotTheHosts checks how NetworkManager understood its
// configuration.
func TestB61_TheNameOfAVIPIsNotTheHosts(t *testing.T) {
	m := start(t, kinds["NetworkManager"])
	m.child("prepend")
	config := m.must("NetworkManager --print-config")
	for _, want := range []string{"hostname-mode=dhcp", "rc-manager=unmanaged"} {
		if !strings.Contains(config, want) {
			t.Errorf("%s is not in\n%s", want, config)
		}
	}
}

// foreignNames looks names up in the host for ten seconds. Each must be found.
// It reports the slowest lookup.
func (m *machine) foreignNames(what string) string {
	m.t.Helper()
	out := m.must(`end=$(($(date +%s)+10)); slow=0; failed=0; n=0
while test $(date +%s) -lt $end; do
	began=$(date +%s%N)
	getent ahostsv4 ` + foreign + ` | grep -q '^` + foreignIP + ` ' || failed=$((failed+1))
	took=$((($(date +%s%N)-began)/1000000)); n=$((n+1))
	test $took -le $slow || slow=$took
	sleep 0.05
done
echo "$failed of $n failed, the slowest took $slow ms"`)
	if !strings.HasPrefix(out, "0 of") {
		m.t.Errorf("%s: %s\n%s", what, out, m.must("journalctl -u t-agent -o cat | tail -n 20"))
	}
	return what + ": " + strings.TrimSpace(out)
}

// lines leaves out the dump of bytes, in which a changed word moves everything.
func lines(file string) string {
	var out []string
	for line := range strings.Lines(file) {
		if !strings.HasPrefix(line, "0") && !strings.HasPrefix(line, "  ") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}

// quiet checks that the agent and the tool do not wake each other.
func (m *machine) quiet() {
	m.t.Helper()
	const state = "stat -L -c '%i %Y %Z' /etc/resolv.conf; systemctl show -p ActiveEnterTimestampMonotonic -p NRestarts systemd-resolved NetworkManager 2>/dev/null; journalctl -u t-agent -o cat | wc -l"
	time.Sleep(time.Second)
	before := m.must(state)
	time.Sleep(3 * time.Second)
	if after := m.must(state); after != before {
		m.t.Errorf("it is not quiet:\n%s\nthen\n%s\n%s", before, after, m.must("journalctl -u t-agent -o cat | tail -n 20"))
	}
}
