package config

import "testing"

func TestWhichConfigurationsHoldSecrets(t *testing.T) {
	for name, c := range map[string]struct {
		config InstallConfig
		want   bool
	}{
		"nothing":                    {InstallConfig{}, false},
		"a proxy without a password": {InstallConfig{Proxy: &Proxy{HTTPProxy: "http://proxy:3128"}}, false},
		"a proxy with one":           {InstallConfig{Proxy: &Proxy{HTTPSProxy: "http://a:b@proxy:3128"}}, true},
		"a pull secret":              {InstallConfig{PullSecret: "{}"}, true},
		"accounts of BMCs":           {InstallConfig{ControlPlane: MachinePool{Fencing: &Fencing{Credentials: []FencingCredential{{}}}}}, true},
		"hosts":                      {InstallConfig{Platform: Platform{BareMetal: &BareMetalPlatform{Hosts: []Host{{}}}}}, true},
		"VIPs only":                  {InstallConfig{Platform: Platform{BareMetal: &BareMetalPlatform{APIVIPs: []string{"10.0.0.5"}}}}, false},
	} {
		if got := HoldsSecrets(&c.config); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
