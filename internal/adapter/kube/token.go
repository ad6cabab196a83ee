package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/joining"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Bootstrap tokens are Secrets with this type, name prefix and namespace;
// tokenExpiration is one of their keys.
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
const (
	tokenNamespace  = metav1.NamespaceSystem
	tokenPrefix     = "bootstrap-token-"
	tokenType       = corev1.SecretType("bootstrap.kubernetes.io/token")
	tokenExpiration = "expiration"
)

// Label and annotations of the bootstrap tokens that the agents of control
// planes make: for which host, for which installation of it, and for what it
// was used.
const (
	tokenLabel    = state.AnnotationDomain + "joining"
	tokenHost     = state.AnnotationDomain + "joining-host"
	tokenRole     = state.AnnotationDomain + "joining-role"
	tokenBy       = state.AnnotationDomain + "joining-by"
	tokenRejoins  = state.AnnotationDomain + "joining-again"
	tokenUsedBy   = state.AnnotationDomain + "joining-request"
	tokenSaysTrue = "true"
)

// LabelToken marks the bootstrap tokens of joining hosts, AnnotationTokenHost has the name of
// a token's host, and TokenNamespace is their namespace.
const (
	LabelToken          = tokenLabel
	AnnotationTokenHost = tokenHost
	TokenNamespace      = tokenNamespace
)

// BootstrapTokens returns the tokens that agents made for hosts that join.
func (c *Client) BootstrapTokens(ctx context.Context) ([]joining.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().Secrets(tokenNamespace).List(ctx, metav1.ListOptions{LabelSelector: tokenLabel})
	if err != nil {
		return nil, fmt.Errorf("list bootstrap tokens: %w", err)
	}
	var out []joining.Token
	for i := range list.Items {
		if t, ok := tokenOf(&list.Items[i]); ok {
			out = append(out, t)
		}
	}
	return out, nil
}

// tokenOf reads a bootstrap token. A token without a valid time of expiry
// counts as expired.
func tokenOf(s *corev1.Secret) (joining.Token, bool) {
	id, ok := strings.CutPrefix(s.Name, tokenPrefix)
	if _, ours := s.Labels[tokenLabel]; !ok || !ours || s.Type != tokenType {
		return joining.Token{}, false
	}
	at, err := time.Parse(time.RFC3339, string(s.Data[tokenExpiration]))
	if err != nil {
		at = time.Time{}
	}
	says := s.Annotations
	return joining.Token{
		ID: id, Host: says[tokenHost], Role: state.Role(says[tokenRole]), By: says[tokenBy],
		Rejoins: says[tokenRejoins] == tokenSaysTrue, Expires: at, UsedBy: says[tokenUsedBy],
	}, true
}

// CreateBootstrapToken adds a token, "id.secret", with which one host may join
// until it expires. The error does not contain the token's secret.
func (c *Client) CreateBootstrapToken(ctx context.Context, token string, t joining.Token) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id, secret, _ := strings.Cut(token, ".")
	made := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: tokenPrefix + id, Namespace: tokenNamespace, Labels: map[string]string{tokenLabel: tokenSaysTrue},
			Annotations: map[string]string{tokenHost: t.Host, tokenRole: string(t.Role), tokenBy: t.By},
		},
		Type: tokenType,
		Data: map[string][]byte{
			"description": []byte("made by holdfast-agent for " + t.Host), "token-id": []byte(id), "token-secret": []byte(secret),
			tokenExpiration:                  []byte(t.Expires.UTC().Format(time.RFC3339)),
			"usage-bootstrap-authentication": []byte(tokenSaysTrue),
			"auth-extra-groups":              []byte(joining.Group),
		},
	}
	if t.Rejoins {
		made.Annotations[tokenRejoins] = tokenSaysTrue
	}
	if _, err := c.set.CoreV1().Secrets(tokenNamespace).Create(ctx, made, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
		return fmt.Errorf("create bootstrap token %s: %w", id, err)
	}
	return nil
}

// UseBootstrapToken records the one request that is approved for a token. It
// fails if another request was recorded since the token was read.
func (c *Client) UseBootstrapToken(ctx context.Context, id, request string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secrets := c.set.CoreV1().Secrets(tokenNamespace)
	s, err := secrets.Get(ctx, tokenPrefix+id, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get bootstrap token %s: %w", id, err)
	}
	switch s.Annotations[tokenUsedBy] {
	case request:
		return nil
	case "":
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, tokenUsedBy, request)
	default:
		return fmt.Errorf("bootstrap token %s was used by another request meanwhile", id)
	}
	if _, err := secrets.Update(ctx, s, metav1.UpdateOptions{FieldManager: fieldManager}); err != nil { // of the version that was read
		return fmt.Errorf("mark bootstrap token %s as used: %w", id, err)
	}
	return nil
}

// DeleteBootstrapToken deletes a token; it is no error if there is none.
func (c *Client) DeleteBootstrapToken(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := c.set.CoreV1().Secrets(tokenNamespace).Delete(ctx, tokenPrefix+id, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete bootstrap token %s: %w", id, err)
	}
	return nil
}
