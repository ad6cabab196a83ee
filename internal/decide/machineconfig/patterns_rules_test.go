package machineconfig

import (
	"slices"
	"strings"
	"testing"
)

// spellings returns patterns for one component of a parameter's path that match it.
func spellings(part string) []string {
	return []string{part, "*", part[:1] + "*", "*" + part[len(part)-1:], "[" + part[:1] + "]" + part[1:], "?" + part[1:]}
}

// patterns returns each path with patterns at up to two of its components.
func patterns(name string) []string {
	parts := strings.Split(name, "/")
	var out []string
	for i := range parts {
		for k := i; k < len(parts); k++ {
			for _, a := range spellings(parts[i]) {
				for _, b := range spellings(parts[k]) {
					p := slices.Clone(parts)
					p[i], p[k] = a, b
					out = append(out, strings.Join(p, "/"))
				}
			}
		}
	}
	return out
}

// TestNoPatternReachesAParameterOfHoldfast: a line of a file of kernel parameters may
// have patterns, and whichever interface they name, they must not set what keeps the
// network of a host.
func TestNoPatternReachesAParameterOfHoldfast(t *testing.T) {
	tried := 0
	for _, own := range parameters {
		for _, device := range []string{"all", "default", "eth0"} {
			for _, name := range patterns(strings.ReplaceAll(own, "*", device)) {
				tried++
				var d decoder
				d.sysctl("contents", SysctlFolder+"50-site.conf", []byte(name+" = 0\n"))
				if len(d.mistakes) == 0 {
					t.Errorf("%s may be set, which is also %s", name, own)
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d patterns", tried)
	}
	for _, name := range []string{"net/ipv4/conf/eth0/rp_filter", "net/ipv4/conf/*/rp_filter", "net/ipv4/neigh/*/gc_stale_time", "net/ipv4/conf/arp_ignore", "net/ipv4/conf/a/b/arp_ignore", "fs/inotify/max_user_watches", "*/overcommit_memory"} {
		var d decoder
		d.sysctl("contents", SysctlFolder+"50-site.conf", []byte(name+" = 0\n"))
		if len(d.mistakes) > 0 {
			t.Errorf("%s: %s", name, d.mistakes)
		}
	}
}
