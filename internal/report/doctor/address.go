package doctor

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	decide "github.com/holdfast/holdfast/internal/decide/doctor"
)

// kubeletFlags is the file with the flags that the installation gave kubelet.
const kubeletFlags = "/var/lib/kubelet/kubeadm-flags.env"

var nodeIP = regexp.MustCompile(`--node-ip=([^\s"']+)`)

// ownAddresses returns the addresses that kubelet was given, and where the host has them now.
func (l *observation) ownAddresses() ([]decide.OwnAddress, error) {
	if l.blind != nil {
		return nil, l.blind
	}
	text, err := l.read(kubeletFlags)
	if err != nil {
		return nil, err
	}
	found := nodeIP.FindSubmatch(text)
	if found == nil {
		return nil, fmt.Errorf("%s has no --node-ip", kubeletFlags)
	}
	var out []decide.OwnAddress
	for word := range strings.SplitSeq(string(found[1]), ",") {
		a, err := netip.ParseAddr(word)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kubeletFlags, err)
		}
		out = append(out, decide.OwnAddress{Address: a.String(), Interface: l.interfaceOf(a)})
	}
	return out, nil
}

// interfaceOf returns the interface that has an address, or nothing if none has it.
func (l *observation) interfaceOf(a netip.Addr) string {
	for _, have := range l.network.Addresses {
		if have.Prefix.Addr() == a {
			return have.Interface
		}
	}
	return ""
}
