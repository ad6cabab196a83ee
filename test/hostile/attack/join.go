package attack

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/testkit/access"
)

// intruder is the name of a host that does not exist.
const intruder = "intruder"

// joins requests the certificate of a control plane with every identity. With a
// worker's pointer that has not expired one may create a worker of another
// name. The attacker goes that way to its end, and tries each step in another
// host's name.
func (a *attacker) joins(ctx context.Context, found []identity) []identity {
	victim := a.ControlPlanes[0]
	for _, who := range found {
		if who.node {
			a.impersonate(ctx, who, victim.Name)
		}
	}
	for _, who := range found {
		admission := a.admission(ctx, who, victim)
		if admission.token == "" {
			continue
		}
		a.asAnother(ctx, admission, victim)
		own := a.secret(ctx, admission, victim, "the token of a host", "/hosts/"+intruder)
		a.asAnother(ctx, own, victim)
		joiner := a.secret(ctx, own, victim, "a bootstrap token", "/hosts/"+intruder+"/bootstrap-token")
		if joiner.token == "" {
			return []identity{admission, own}
		}
		joiner.name = "a host that joins"
		a.impersonate(ctx, joiner, victim.Name)
		return []identity{admission, own, joiner}
	}
	return nil
}

// admission returns the token in a worker's configuration, if an identity is a
// worker's pointer.
func (a *attacker) admission(ctx context.Context, who identity, server Host) identity {
	if who.token == "" {
		return identity{}
	}
	l := Line{Name: "a worker's configuration", Who: who.name, To: server.Name, Expected: Open, Got: answered}
	answer, err := access.Attempt{Method: http.MethodGet, Path: "/config/worker"}.Try(ctx, who.client, a.at(server, a.config), who.token, a.agent())
	if err != nil || answer.Status != http.StatusOK {
		return identity{}
	}
	a.keep(answer.Body)
	a.note(ctx, l)
	cfg, err := ignition.Parse(answer.Body)
	if err != nil {
		a.trouble(ctx, err)
		return identity{}
	}
	for _, f := range cfg.Storage.Files {
		if f.Path != site.Path {
			continue
		}
		data, err := ignition.Contents(f.Contents)
		if err != nil {
			a.trouble(ctx, err)
			return identity{}
		}
		a.keep(data)
		s, err := site.Unmarshal(data)
		if err != nil {
			a.trouble(ctx, err)
			return identity{}
		}
		return newIdentity("the admission of a worker", s.Identity.AdmissionToken, nil)
	}
	return identity{}
}

// secret returns the secret that the configuration server gives for a valid
// token.
func (a *attacker) secret(ctx context.Context, who identity, server Host, name, path string) identity {
	l := Line{Name: name, Who: who.name, To: server.Name, Expected: Open, Got: answered}
	answer, err := access.Attempt{Method: http.MethodPost, Path: path}.Try(ctx, who.client, a.at(server, a.config), who.token, a.agent())
	if err != nil {
		l.Got, l.Detail = failed, err.Error()
		a.note(ctx, l)
		return identity{}
	}
	a.keep(answer.Body)
	var given struct{ Token string }
	_ = json.Unmarshal(answer.Body, &given) // without a token it leads no further
	l.Status = answer.Status
	a.note(ctx, l)
	return newIdentity(name, given.Token, nil)
}

// asAnother uses a token of this host to request another host's secrets.
func (a *attacker) asAnother(ctx context.Context, who identity, server Host) {
	for _, victim := range append(slices.Clone(a.ControlPlanes), a.Own) {
		for _, attempt := range []access.Attempt{
			{Name: "the bootstrap token of " + victim.Name, Method: http.MethodPost, Path: "/hosts/" + victim.Name + "/bootstrap-token"},
			{Name: "a report in the name of " + victim.Name, Method: http.MethodPost, Path: "/progress/" + victim.Name, Body: `{}`},
		} {
			a.request(ctx, who, server.Name, a.at(server, a.config), attempt)
		}
	}
	for _, victim := range a.ControlPlanes {
		a.request(ctx, who, server.Name, a.at(server, a.config),
			access.Attempt{Name: "admission as " + victim.Name, Method: http.MethodPost, Path: "/hosts/" + victim.Name})
	}
}

// configServers uses every token, and some forged ones, to request a control
// plane's secrets.
func (a *attacker) configServers(ctx context.Context, found []identity) {
	for _, who := range slices.Concat(found, forged()) {
		for _, server := range a.ControlPlanes {
			for _, attempt := range []access.Attempt{
				{Name: "a control plane's configuration", Method: http.MethodGet, Path: "/config/master"},
				{Name: "the progress of all hosts", Method: http.MethodGet, Path: "/progress"},
				{Name: "a report of a control plane", Method: http.MethodPost, Path: "/progress/" + server.Name, Body: `{}`},
				{Name: "admission as a control plane", Method: http.MethodPost, Path: "/hosts/" + server.Name},
				{Name: "a control plane's bootstrap token", Method: http.MethodPost, Path: "/hosts/" + server.Name + "/bootstrap-token"},
			} {
				a.request(ctx, who, server.Name, a.at(server, a.config), attempt)
			}
		}
	}
}

// forged returns tokens that look like a control plane's but lack a valid
// signature.
func forged() []identity {
	text := base64.RawURLEncoding.EncodeToString
	claims := text([]byte(`{"role":"master","aud":["holdfast-config"],"exp":4102444800}`))
	return []identity{
		newIdentity("a token without a signature", text([]byte(`{"alg":"none","typ":"JWT"}`))+"."+claims+".", nil),
		newIdentity("a token with a made-up signature", text([]byte(`{"alg":"HS256","typ":"JWT"}`))+"."+claims+"."+text(make([]byte, 32)), nil),
	}
}
