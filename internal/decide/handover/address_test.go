package handover

import (
	"strings"
	"testing"
)

func TestAfterTheHandOverAHostsAddressIsTheHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		a                     Address
		is, awaited, complain string
	}{
		"before, what its node says":         {Address{Said: []string{"10.0.0.1", "fd00::1"}}, "10.0.0.1", "", ""},
		"before, what nobody knows":          {Address{Known: "10.0.0.9", Said: []string{"10.0.0.1"}}, "10.0.0.1", "", ""},
		"before, a node that says nothing":   {Address{}, "", "node cp-1 has no internal address", ""},
		"after, both say the same":           {Address{Settled: true, Said: []string{"10.0.0.1"}, Known: "10.0.0.1"}, "10.0.0.1", "", ""},
		"after, in another spelling":         {Address{Settled: true, Said: []string{"fd00:0::1"}, Known: "fd00::1"}, "fd00:0::1", "", ""},
		"after, in another order":            {Address{Settled: true, Said: []string{"fd00::1", "10.0.0.1"}, Known: "10.0.0.1"}, "10.0.0.1", "", ""},
		"after, another address":             {Address{Settled: true, Said: []string{"10.9.9.9"}, Known: "10.0.0.1"}, "10.0.0.1", "", "node cp-1 reports the address 10.9.9.9, but Corosync and etcd know its host by 10.0.0.1"},
		"after, nonsense":                    {Address{Settled: true, Said: []string{"x"}, Known: "10.0.0.1"}, "10.0.0.1", "", "reports the address x"},
		"after, nothing":                     {Address{Settled: true, Known: "10.0.0.1"}, "10.0.0.1", "", "reports the address unknown,"},
		"after, and the hosts are not heard": {Address{Settled: true, Said: []string{"10.9.9.9"}}, "", "does not yet show", ""},
	} {
		tt.a.Node = "cp-1"
		is, awaited, moved := tt.a.Is()
		if is != tt.is || !strings.Contains(awaited, tt.awaited) || (tt.awaited == "") != (awaited == "") ||
			!strings.Contains(moved, tt.complain) || (tt.complain == "") != (moved == "") {
			t.Errorf("%s: %q, %q, %q", name, is, awaited, moved)
		}
	}
}
