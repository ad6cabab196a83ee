package restore

import "testing"

func TestTheServicesOfABackupKeepTheirNetworks(t *testing.T) {
	const four, six = "172.30.0.0/16", "fd96::/112"
	for name, c := range map[string]struct {
		former, now []string
		want        bool
	}{
		"the same":          {[]string{four, six}, []string{four, six}, true},
		"a second family":   {[]string{four}, []string{four, six}, true},
		"another network":   {[]string{four}, []string{"172.31.0.0/16"}, false},
		"a larger one":      {[]string{four}, []string{"172.16.0.0/12"}, false},
		"one family less":   {[]string{four, six}, []string{four}, false},
		"another order":     {[]string{four, six}, []string{six, four}, false},
		"the other family":  {[]string{four}, []string{six}, false},
		"nothing was known": {nil, []string{four}, true},
	} {
		if got := KeepsServices(c.former, c.now); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
