{{/* Labels of all objects. */}}
{{- define "wavegate.labels" -}}
app.kubernetes.io/name: wavegate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.labels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that select the Pods. With Argo CD's Redis those by which its NetworkPolicies admit them. */}}
{{- define "wavegate.selector" -}}
app.kubernetes.io/name: {{ if .Values.redis.address }}argocd-application-controller{{ else }}wavegate{{ end }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of the page, whose Pods are no controllers. */}}
{{- define "wavegate.dashboard.labels" -}}
{{ include "wavegate.labels" . | replace "app.kubernetes.io/name: wavegate\n" "app.kubernetes.io/name: wavegate-dashboard\n" }}
{{- end }}

{{- define "wavegate.dashboard.selector" -}}
app.kubernetes.io/name: wavegate-dashboard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "wavegate.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Values.fullname }}
{{- end }}

{{- define "wavegate.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}
{{- if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* A manifest of deploy/ under the names of this release: its kind, and all but its metadata. */}}
{{- define "wavegate.manifest" -}}
{{- $name := .manifest.metadata.name | replace "wavegate" .root.Values.fullname -}}
apiVersion: {{ .manifest.apiVersion }}
kind: {{ .manifest.kind }}
metadata:
  name: {{ $name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "wavegate.labels" .root | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{ toYaml (omit .manifest "apiVersion" "kind" "metadata") }}
{{- end }}

{{/* Binds the service account to a role of this name. */}}
{{- define "wavegate.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "wavegate.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ include "wavegate.serviceAccount" .root }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* Where the runbook of an alert is: the chart, and the name of the alert. */}}
{{- define "wavegate.runbook" -}}
{{- $root := index . 0 -}}
{{- $name := index . 1 | lower -}}
{{- with $root.Values.metrics.rules.runbooks -}}
runbook_url: {{ printf "%s#%s" . $name | quote }}
{{- else -}}
runbook: docs/runbooks.md#{{ $name }}
{{- end -}}
{{- end -}}
