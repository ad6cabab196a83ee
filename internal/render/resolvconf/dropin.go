package resolvconf

import "strings"

// Drop-ins for the services that write the resolver's configuration. They are
// below /run, so after a boot a service is as the site configured it until the
// agent runs again.
const (
	ResolvedPath       = "/run/systemd/resolved.conf.d/60-holdfast.conf"
	NetworkManagerPath = "/run/NetworkManager/conf.d/60-holdfast.conf"
)

// Resolved returns a drop-in for systemd-resolved. It asks the host's own name
// server for the cluster's names. For all others it asks that server and those
// of the links at once, and the first answer counts, so a dead server does no
// harm. The site's settings for the whole host, from its files in their order,
// follow ours: systemd-resolved stays with the first server that answers.
func Resolved(own Own, site ...[]byte) []byte {
	servers := append([]string{own.Server.String()}, resolvedList("DNS", site)...)
	domains := append([]string{own.Search}, resolvedList("Domains", site)...)
	return []byte(note + "[Resolve]\nDNS=\nDNS=" + strings.Join(servers, " ") +
		"\nDomains=\nDomains=" + strings.Join(domains, " ") + "\n")
}

// resolvedList reads a list of resolved.conf(5): each line adds to it, an empty
// one clears it.
func resolvedList(key string, files [][]byte) []string {
	var out []string
	for _, file := range files {
		for line := range strings.Lines(string(file)) {
			name, value, found := strings.Cut(strings.TrimSpace(line), "=")
			switch {
			case !found || strings.TrimSpace(name) != key:
			case strings.TrimSpace(value) == "":
				out = nil
			default:
				out = append(out, strings.Fields(value)...)
			}
		}
	}
	return out
}

// NetworkManager returns a drop-in that keeps NetworkManager off resolv.conf if
// it would write that file itself. The drop-in always restricts the sources of
// the host's name to DHCP and the configuration: a name that belongs to a
// virtual IP is not the host's.
func NetworkManager(writes bool) []byte {
	lines := []string{note + "[main]", "hostname-mode=dhcp"}
	if writes {
		lines = append(lines, "rc-manager=unmanaged")
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// Record returns the entry of the host's own name server for resolvconf(8).
func Record(own Own) []byte {
	return []byte("search " + own.Search + "\nnameserver " + own.Server.String() + "\n")
}

const note = "# Written by holdfast-agent and taken back by it.\n"

// The files that tell kubelet whether pods may copy resolv.conf.
const (
	// ReadyPath exists once the agent has decided in this boot which name server
	// comes first.
	ReadyPath = "/run/holdfast/resolver/ready"
	// ManagedPath exists, even after a boot, on hosts where the agent has ever put
	// the host's own name server first: other hosts have nothing to wait for.
	ManagedPath = "/var/lib/holdfast/resolver/managed"
	// waitedPath exists once kubelet has waited in vain in this boot.
	waitedPath = "/run/holdfast/resolver/waited"
)

// KubeletWait is the line of kubelet's unit that waits for ReadyPath: at most 20
// s and once per boot, even without a working agent. It never fails.
const KubeletWait = "ExecStartPre=-/bin/sh -c '" +
	"test -e " + ManagedPath + " || exit 0; i=0; " +
	"until test -e " + ReadyPath + " || test -e " + waitedPath + "; do i=$$((i+1)); " +
	"if test $$i -gt 100; then mkdir -p /run/holdfast/resolver; touch " + waitedPath + "; fi; " +
	"sleep 0.2; done'\n"
