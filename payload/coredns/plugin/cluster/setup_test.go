package cluster

import (
	"testing"

	"github.com/coredns/caddy"
)

func TestSetup(t *testing.T) {
	for corefile, wrong := range map[string]bool{
		"cluster /run/zone":                      false,
		"cluster zone":                           false,
		"cluster":                                true,
		"cluster a b":                            true,
		"cluster a {\n ttl 5\n}":                 true,
		"cluster /run/zone\n cluster /run/zone2": true,
	} {
		err := setup(caddy.NewTestController("dns", corefile))
		if (err != nil) != wrong {
			t.Errorf("%q: %v", corefile, err)
		}
	}
}
