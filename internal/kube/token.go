package kube

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bootstrap tokens are Secrets of this type, name and namespace; the keys below
// are theirs.
// https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/
const (
	tokenNamespace  = "kube-system"
	tokenPrefix     = "bootstrap-token-"
	tokenType       = corev1.SecretType("bootstrap.kubernetes.io/token")
	tokenExpiration = "expiration"
)

// joinGroup is the group that kubeadm lets join.
const joinGroup = "system:bootstrappers:kubeadm:default-node-token"

// BootstrapTokenExpiry returns when the bootstrap token with an id ends, zero
// if it does not, and whether the cluster knows it at all.
func (c *Client) BootstrapTokenExpiry(ctx context.Context, id string) (time.Time, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secret, err := c.set.CoreV1().Secrets(tokenNamespace).Get(ctx, tokenPrefix+id, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return time.Time{}, false, nil
	}
	if err != nil {
		return time.Time{}, false, fmt.Errorf("get bootstrap token %s: %w", id, err)
	}
	text := string(secret.Data[tokenExpiration])
	if text == "" {
		return time.Time{}, true, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("bootstrap token %s: its expiration is not a time", id)
	}
	return at, true, nil
}

// CreateBootstrapToken adds a token, "id.secret", with which hosts may join
// until it expires. The error does not hold the token's secret.
func (c *Client) CreateBootstrapToken(ctx context.Context, token string, expires time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	id, secret, _ := strings.Cut(token, ".")
	_, err := c.set.CoreV1().Secrets(tokenNamespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: tokenPrefix + id, Namespace: tokenNamespace},
		Type:       tokenType,
		StringData: map[string]string{
			"description": "made by holdfast-agent for hosts that join", "token-id": id, "token-secret": secret,
			tokenExpiration:                  expires.UTC().Format(time.RFC3339),
			"usage-bootstrap-signing":        "true",
			"usage-bootstrap-authentication": "true",
			"auth-extra-groups":              joinGroup,
		},
	}, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("create bootstrap token %s: %w", id, err)
	}
	return nil
}
