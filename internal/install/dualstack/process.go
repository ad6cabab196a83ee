package dualstack

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/adapter/host"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
)

// servers are the programs of this host's static pods that name networks.
var servers = []host.PodProgram{
	{Name: "kube-apiserver", Flag: "--service-account-key-file", File: "/etc/kubernetes/pki/sa.pub"},
	{Name: "kube-controller-manager", Flag: "--service-account-private-key-file", File: "/etc/kubernetes/pki/sa.key"},
}

// Runs reports whether the API server and the controller manager of this host run with the
// Service networks of both families, and no other process of them is left.
func Runs(p decide.Plan) (bool, error) {
	for _, s := range servers {
		list, err := s.Processes()
		if err != nil || len(list) == 0 {
			return false, err
		}
		for _, pid := range list {
			data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
			if err != nil || !ranges(data, p.Services) {
				return false, nil //nolint:nilerr // it has just ended: the next look tells
			}
		}
	}
	return true, nil
}

// ranges reports whether the arguments of a process have a Service network.
func ranges(cmdline []byte, network string) bool {
	for arg := range bytes.SplitSeq(cmdline, []byte{0}) {
		if list, is := strings.CutPrefix(string(arg), decide.ServiceRange); is {
			for word := range strings.SplitSeq(list, ",") {
				if word == network {
					return true
				}
			}
		}
	}
	return false
}
