package attack

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/testkit/access"
)

// apis makes every attempt with every identity, at each API server in turn.
func (a *attacker) apis(ctx context.Context, found []identity) {
	request := csr("evil", "system:masters")
	for _, who := range found {
		for i, server := range a.ControlPlanes {
			for n, attempt := range access.Attempts(access.Target{ControlPlane: server.Name, Own: a.Own.Name, Request: request}) {
				if n%len(a.ControlPlanes) == i {
					a.try(ctx, who, server, attempt)
				}
			}
		}
	}
}

func (a *attacker) try(ctx context.Context, who identity, server Host, attempt access.Attempt) {
	if ctx.Err() != nil {
		return
	}
	l := Line{Name: attempt.Name, Who: who.name, To: server.Name, Expected: Refused, Got: failed, Began: time.Now(), Agent: a.agent()}
	answer, err := attempt.Try(ctx, who.client, a.at(server, a.api), who.token, l.Agent)
	if err != nil {
		l.Detail = err.Error()
		a.note(ctx, l)
		return
	}
	a.keep(answer.Body)
	l.Status, l.Recorded, l.Got = answer.Status, !attempt.Quiet || !who.node, answered
	if answer.Refused() {
		l.Got = string(Refused)
	} else {
		l.Detail = fmt.Sprintf("%.200s", answer.Body)
	}
	a.note(ctx, l)
}

// ask makes a request that is no attempt by itself, and decodes the answer.
func (a *attacker) ask(ctx context.Context, who identity, method, path, body string, out any) (int, error) {
	var last error
	for _, server := range a.ControlPlanes {
		answer, err := access.Attempt{Method: method, Path: path, Body: body}.Try(ctx, who.client, a.at(server, a.api), who.token, a.agent())
		if err != nil {
			last = err
			continue
		}
		a.keep(answer.Body)
		if answer.Status >= http.StatusMultipleChoices {
			return answer.Status, nil
		}
		return answer.Status, json.Unmarshal(answer.Body, out)
	}
	return 0, last
}

// whoAmI returns the name of an identity, empty if the cluster does not know
// it.
func (a *attacker) whoAmI(ctx context.Context, who identity) string {
	var review struct {
		Status struct{ UserInfo struct{ Username string } }
	}
	_, err := a.ask(ctx, who, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews",
		`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`, &review)
	a.trouble(ctx, err)
	return review.Status.UserInfo.Username
}

// tokensOfPods returns the identities of accounts whose tokens a kubelet may
// request, without those that are known already.
func (a *attacker) tokensOfPods(ctx context.Context, kubelet identity, known []identity) []identity {
	var pods struct {
		Items []struct {
			Metadata struct{ Name, Namespace, UID string }
			Spec     struct{ ServiceAccountName string }
		}
	}
	_, err := a.ask(ctx, kubelet, http.MethodGet, "/api/v1/pods?fieldSelector="+url.QueryEscape("spec.nodeName="+a.Own.Name), "", &pods)
	a.trouble(ctx, err)
	var out []identity
	for _, p := range pods.Items {
		account := p.Metadata.Namespace + ":" + p.Spec.ServiceAccountName
		name := "system:serviceaccount:" + account
		if p.Spec.ServiceAccountName == "" || slices.ContainsFunc(slices.Concat(known, out), func(i identity) bool { return i.name == name }) {
			continue
		}
		var answer struct{ Status struct{ Token string } }
		body := fmt.Sprintf(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}}}`,
			p.Metadata.Name, p.Metadata.UID)
		status, err := a.ask(ctx, kubelet, http.MethodPost, "/api/v1/namespaces/"+p.Metadata.Namespace+"/serviceaccounts/"+p.Spec.ServiceAccountName+"/token", body, &answer)
		a.trouble(ctx, err)
		a.note(ctx, Line{Name: "the token of an own pod's account", Who: kubelet.name, To: account, Expected: Open, Got: answered, Status: status, Began: time.Now()})
		if answer.Status.Token != "" {
			out = append(out, newIdentity(name, answer.Status.Token, nil))
		}
	}
	return out
}

// csr returns a request for a certificate.
func csr(name string, groups ...string) []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil
	}
	der, _ := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: groups}}, key) // the key is valid
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// impersonate requests the certificate of a control plane's kubelet. Every host
// may request it; the attempt is to get it.
func (a *attacker) impersonate(ctx context.Context, who identity, victim string) {
	l := Line{Name: "the certificate of " + victim, Who: who.name, To: "the signer", Expected: Refused, Got: failed, Began: time.Now()}
	defer func() { a.note(ctx, l) }()
	request, _ := json.Marshal(map[string]any{ // strings and bytes always encode
		"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": map[string]any{"generateName": "evil-"},
		"spec": map[string]any{
			"request": csr("system:node:"+victim, "system:nodes"), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
			"usages": []string{"digital signature", "client auth"},
		},
	})
	var made struct {
		Metadata struct{ Name string }
		Status   struct {
			Certificate []byte
			Conditions  []struct{ Type, Reason string }
		}
	}
	status, err := a.ask(ctx, who, http.MethodPost, "/apis/certificates.k8s.io/v1/certificatesigningrequests", string(request), &made)
	if err != nil || status != http.StatusCreated {
		l.Got, l.Status, l.Detail = string(Refused), status, fmt.Sprint("not even asked for: ", err)
		return
	}
	for end := time.Now().Add(a.awaited); time.Now().Before(end) && ctx.Err() == nil; _ = host.Sleep(ctx, time.Second) {
		if _, err := a.ask(ctx, who, http.MethodGet, "/apis/certificates.k8s.io/v1/certificatesigningrequests/"+made.Metadata.Name, "", &made); err != nil {
			l.Detail = err.Error()
		}
		if len(made.Status.Certificate) > 0 {
			l.Got = answered
			return
		}
	}
	l.Got, l.Detail = string(Refused), fmt.Sprint(made.Status.Conditions)
}

// kubeletPort is the port of kubelets.
const kubeletPort = 10250

// kubelets asks the kubelets of control planes for their pods and settings, and
// to run a command.
func (a *attacker) kubelets(ctx context.Context, found []identity) {
	for _, who := range found {
		for _, h := range a.ControlPlanes {
			for _, attempt := range []access.Attempt{
				{Name: "the pods of a control plane", Method: http.MethodGet, Path: "/pods"},
				{Name: "the settings of a control plane's kubelet", Method: http.MethodGet, Path: "/configz"},
				{Name: "the logs of a control plane", Method: http.MethodGet, Path: "/logs/kubernetes/audit/audit.log"},
				{Name: "a command on a control plane", Method: http.MethodPost, Path: "/run/kube-system/kube-apiserver-" + h.Name + "/kube-apiserver?cmd=id"},
			} {
				a.request(ctx, who, h.Name, a.at(h, kubeletPort), attempt)
			}
		}
	}
}

// request makes an attempt at a server without an audit log.
func (a *attacker) request(ctx context.Context, who identity, to, server string, attempt access.Attempt) {
	if ctx.Err() != nil {
		return
	}
	l := Line{Name: attempt.Name, Who: who.name, To: to, Expected: Refused, Got: failed, Began: time.Now()}
	defer func() { a.note(ctx, l) }()
	answer, err := attempt.Try(ctx, who.client, server, who.token, a.agent())
	if err != nil {
		l.Detail = err.Error()
		return
	}
	a.keep(answer.Body)
	l.Status, l.Got = answer.Status, answered
	// If the name is taken, the answer is a conflict.
	if answer.Refused() || answer.Status == http.StatusConflict {
		l.Got = string(Refused)
		return
	}
	l.Detail = fmt.Sprintf("%.200s", answer.Body)
}
