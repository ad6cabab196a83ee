package resolvconf

import "strings"

// Drop-ins for the services that write the resolver's configuration. They lie
// below /run: after a boot the service is as the site made it until the agent
// runs again.
const (
	ResolvedPath       = "/run/systemd/resolved.conf.d/60-holdfast.conf"
	NetworkManagerPath = "/run/NetworkManager/conf.d/60-holdfast.conf"
)

// Resolved has systemd-resolved ask the host's own name server for the
// cluster's names, and it among those of the links for all others: whichever
// answers first counts, so a dead one takes nothing away. What the site set for
// the whole host, in its files in their order, follows ours: it keeps to the
// first that answers.
func Resolved(own Own, site ...[]byte) []byte {
	servers := append([]string{own.Server.String()}, resolvedList("DNS", site)...)
	domains := append([]string{own.Search}, resolvedList("Domains", site)...)
	return []byte(note + "[Resolve]\nDNS=\nDNS=" + strings.Join(servers, " ") +
		"\nDomains=\nDomains=" + strings.Join(domains, " ") + "\n")
}

// resolvedList reads a list of resolved.conf(5): each line adds to it, an empty
// one begins it anew.
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

// NetworkManager has NetworkManager leave resolv.conf alone, where it would
// write it itself. It always takes the host's name from DHCP or the
// configuration only: the name that belongs to a virtual IP is not the host's.
func NetworkManager(writes bool) []byte {
	lines := []string{note + "[main]", "hostname-mode=dhcp"}
	if writes {
		lines = append(lines, "rc-manager=unmanaged")
	}
	return []byte(strings.Join(lines, "\n") + "\n")
}

// Record is what resolvconf(8) is told of the host's own name server.
func Record(own Own) []byte {
	return []byte("search " + own.Search + "\nnameserver " + own.Server.String() + "\n")
}

const note = "# Written by holdfast-agent and taken back by it.\n"

// Files by which kubelet knows that pods may copy resolv.conf.
const (
	// ReadyPath is there once the agent has decided in this boot what is asked
	// first.
	ReadyPath = "/run/holdfast/resolver/ready"
	// ManagedPath is there, over boots, where the agent has ever put the host's
	// own name server first: on other hosts there is nothing to wait for.
	ManagedPath = "/var/lib/holdfast/resolver/managed"
	// waitedPath is there once kubelet waited in vain in this boot.
	waitedPath = "/run/holdfast/resolver/waited"
)

// KubeletWait is the line of kubelet's unit that has it wait for ReadyPath: 20 s
// at most and once in a boot, whatever has become of the agent. It never fails.
const KubeletWait = "ExecStartPre=-/bin/sh -c '" +
	"test -e " + ManagedPath + " || exit 0; i=0; " +
	"until test -e " + ReadyPath + " || test -e " + waitedPath + "; do i=$$((i+1)); " +
	"if test $$i -gt 100; then mkdir -p /run/holdfast/resolver; touch " + waitedPath + "; fi; " +
	"sleep 0.2; done'\n"
