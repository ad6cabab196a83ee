package site

import "strings"

// ProxyEnv returns the site's proxy as environment variables, NAME=value, in
// both spellings that programs read; none without a proxy. They may hold a
// password.
func (s *Site) ProxyEnv() []string {
	p := s.Config.Proxy
	if p == nil {
		return nil
	}
	var out []string
	for _, v := range []struct{ name, value string }{
		{"HTTP_PROXY", p.HTTPProxy}, {"HTTPS_PROXY", p.HTTPSProxy}, {"NO_PROXY", s.Config.NoProxy()},
	} {
		if v.value != "" {
			out = append(out, v.name+"="+v.value, strings.ToLower(v.name)+"="+v.value)
		}
	}
	return out
}
