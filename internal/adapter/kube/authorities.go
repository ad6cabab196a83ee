package kube

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ErrChanged says that somebody else changed an object meanwhile.
var ErrChanged = errors.New("somebody else changed it meanwhile")

// SwapSecretKey writes one key of a Secret, if it has the value before, nil for
// none. It creates the Secret if there is none. Other keys stay.
func (c *Client) SwapSecretKey(ctx context.Context, namespace, name, key string, before, after []byte) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	secrets := c.set.CoreV1().Secrets(namespace)
	got, err := secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && before == nil:
		_, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{key: after},
		}, metav1.CreateOptions{FieldManager: fieldManager})
	case err == nil && !bytes.Equal(got.Data[key], before):
		err = ErrChanged
	case err == nil:
		if got.Data == nil {
			got.Data = map[string][]byte{}
		}
		got.Data[key] = after
		_, err = secrets.Update(ctx, got, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return swapped("Secret", namespace, name, err)
}

// SwapConfigMapKey writes one key of a ConfigMap, if it has the value before. Other
// keys stay.
func (c *Client) SwapConfigMapKey(ctx context.Context, namespace, name, key, before, after string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	objects := c.set.CoreV1().ConfigMaps(namespace)
	got, err := objects.Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil && got.Data[key] != before:
		err = ErrChanged
	case err == nil:
		if got.Data == nil {
			got.Data = map[string]string{}
		}
		got.Data[key] = after
		_, err = objects.Update(ctx, got, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	return swapped("ConfigMap", namespace, name, err)
}

func swapped(kind, namespace, name string, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = ErrChanged
	}
	if err != nil {
		return fmt.Errorf("write %s %s/%s: %w", kind, namespace, name, err)
	}
	return nil
}

// VerifyingKeys returns the IDs of the keys with which the API server verifies
// tokens of service accounts, as that server publishes them.
func (c *Client) VerifyingKeys(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body, err := c.set.CoreV1().RESTClient().Get().AbsPath("/openid/v1/jwks").Do(ctx).Raw()
	var set struct {
		Keys []struct {
			ID string `json:"kid"`
		} `json:"keys"`
	}
	if err == nil {
		err = json.Unmarshal(body, &set)
	}
	if err != nil {
		return nil, fmt.Errorf("keys that verify tokens: %w", err)
	}
	var out []string
	for _, k := range set.Keys {
		out = append(out, k.ID)
	}
	return out, nil
}

// APIReady returns an error unless the API server says that it is ready.
func (c *Client) APIReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if err := c.set.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("the API server is not ready: %w", err)
	}
	return nil
}

// TokenSecret is a Secret with a token that has no end, and the ID of the key that
// signed it, empty if the token does not say it.
type TokenSecret struct{ Namespace, Name, Key string }

// TokenSecrets returns all Secrets with a token of a service account. No token
// leaves this function.
func (c *Client) TokenSecrets(ctx context.Context) ([]TokenSecret, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := c.set.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, fmt.Errorf("list Secrets with tokens: %w", err)
	}
	var out []TokenSecret
	for _, s := range list.Items {
		if token := s.Data[corev1.ServiceAccountTokenKey]; len(token) > 0 {
			out = append(out, TokenSecret{s.Namespace, s.Name, keyOf(string(token))})
		}
	}
	return out, nil
}

// keyOf returns the ID of the key that signed a token, empty if it says none.
func keyOf(token string) string {
	head, _, _ := strings.Cut(token, ".")
	data, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return ""
	}
	var header struct {
		Key string `json:"kid"`
	}
	if json.Unmarshal(data, &header) != nil {
		return ""
	}
	return header.Key
}
