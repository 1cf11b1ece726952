// Copies the text of the element that a button names in data-copy.
document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const text = document.getElementById(button.dataset.copy).textContent;
  const say = (word) => {
    button.textContent = word;
    button.focus();
    button.addEventListener("blur", () => { button.textContent = "Copy"; }, { once: true });
  };
  if (navigator.clipboard) navigator.clipboard.writeText(text).then(() => say("Copied"), () => say("Select and copy"));
  else say("Select and copy");
});
